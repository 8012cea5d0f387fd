"""A producer's arguments, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.limits import acks_code, check_timeouts, producer_limits
from ottla.client.settings import bootstrap_addresses, check_topic
from ottla.client.units import seconds
from ottla.machines.batches import ProducerLimits
from ottla.producer.target import PartitionerLike, check_partitioner
from ottla.serdes.serdes import Serializer, serializer


@dataclass(frozen=True)
class ProducerOptions:
    """Times in seconds; `acks` as in the protocol."""

    bootstrap: list[str]
    topic: str | None
    key: Serializer
    value: Serializer
    acks: int
    limits: ProducerLimits
    partitioner: PartitionerLike
    connect_timeout_s: float
    request_timeout_s: float
    max_block_s: float
    metadata_max_idle_s: float
    metadata_max_age_s: float


def producer_options(topic: str | None, settings: Mapping[str, Any]) -> ProducerOptions:
    """`settings` are the Producer's arguments under their names. Raises ConfigError for what can't be."""
    limits = producer_limits(settings)
    request_timeout_s = seconds(settings["request_timeout"], "request_timeout")
    check_timeouts(limits, request_timeout_s)
    if topic is not None:
        check_topic(topic)
    return ProducerOptions(
        bootstrap=bootstrap_addresses(settings["bootstrap"]),
        topic=topic,
        key=serializer(settings["key"], "key"),
        value=serializer(settings["value"], "value"),
        acks=acks_code(settings["acks"]),
        limits=limits,
        partitioner=check_partitioner(settings["partitioner"]),
        connect_timeout_s=seconds(settings["connect_timeout"], "connect_timeout"),
        request_timeout_s=request_timeout_s,
        max_block_s=seconds(settings["max_block"], "max_block"),
        metadata_max_idle_s=seconds(settings["metadata_max_idle"], "metadata_max_idle"),
        metadata_max_age_s=seconds(settings["metadata_max_age"], "metadata_max_age"),
    )
