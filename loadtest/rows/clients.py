"""The clients that users have."""

from __future__ import annotations

from typing import Any, Final, Literal

from ottla.consumer.consumer import Consumer
from ottla.producer.producer import Producer

PATIENCE_S: Final = 30.0
"""What is not there after so long counts as failed."""


def new_producer(
    bootstrap: str | None, topic: str, *, acks: Literal["all", 1, 0] = "all", transactional_id: str | None = None
) -> Producer[bytes, bytes]:
    """A producer that has looked its topic up."""
    producer = Producer[bytes, bytes](
        bootstrap,
        topic=topic,
        key="bytes",
        value="bytes",
        acks=acks,
        delivery_timeout=PATIENCE_S,
        request_timeout=10.0,
        transactional_id=transactional_id,
    )
    producer.partitions_for()
    return producer


def new_consumer(bootstrap: str | None, topic: str, **arguments: Any) -> Consumer[bytes, bytes]:
    """A consumer of bytes."""
    return Consumer(topic, bootstrap=bootstrap, key="bytes", value="bytes", **arguments)
