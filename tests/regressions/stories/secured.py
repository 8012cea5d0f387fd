"""Doors of a secured cluster that stood open."""

from __future__ import annotations

from tests.regressions.injection import skipped
from tests.regressions.story import Story

STORIES = (
    Story(
        "service-as-a-kafka-client",
        "A service's certificate opened a Kafka listener that trusted its authority: broker 0 was the user CN=0",
        skipped("ottla_broker.kafka.keystore:service_uris", ()),
    ),
)
