"""The clients that users have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ottla.client.security.profiles import load_profile
from ottla.consumer.consumer import Consumer
from ottla.producer.producer import Producer


@dataclass(frozen=True, slots=True)
class Reach:
    """How clients reach a cluster: its addresses, and the security of their connections under Kafka's names."""

    bootstrap: str | None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)


def reach_of(host: str | None, profile: str) -> Reach:
    """Return how to reach the cluster that a command names: by an address, by a profile, or by OTTLA_PROFILE. Raises
    ConfigError if there is no such profile."""
    if not host:  # an address in the command is a reason not to send the password of another cluster there
        profile = profile or os.environ.get("OTTLA_PROFILE", "")
    config = load_profile(profile).config() if profile else {}
    addresses = config.pop("bootstrap.servers", None)
    return Reach(host or addresses, config)


PATIENCE_S: Final = 30.0
"""What is not there after so long counts as failed."""


def new_producer(
    reach: Reach, topic: str, *, acks: Literal["all", 1, 0] = "all", transactional_id: str | None = None
) -> Producer[bytes, bytes]:
    """A producer that has looked its topic up."""
    producer = Producer[bytes, bytes](
        reach.bootstrap,
        topic=topic,
        key="bytes",
        value="bytes",
        acks=acks,
        delivery_timeout=PATIENCE_S,
        request_timeout=10.0,
        transactional_id=transactional_id,
        config=reach.config,
    )
    producer.partitions_for()
    return producer


def new_consumer(reach: Reach, topic: str, **arguments: Any) -> Consumer[bytes, bytes]:
    """A consumer of bytes."""
    return Consumer(topic, bootstrap=reach.bootstrap, key="bytes", value="bytes", config=reach.config, **arguments)
