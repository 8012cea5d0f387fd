"""A producer's arguments, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.limits import acks_code, check_timeouts, producer_limits
from ottla.client.settings import bootstrap_addresses, check_topic
from ottla.client.units import seconds
from ottla.errors import config_error
from ottla.machines.batches import ProducerLimits
from ottla.producer.target import PartitionerLike, check_partitioner
from ottla.serdes.serdes import Serializer, serializer

_LONGEST_ID_BYTES: Final = 2**15 - 1
"""The longest string in Kafka's protocol."""


@dataclass(frozen=True)
class ProducerOptions:
    """Checked arguments. Times are in seconds; `acks` is as in the protocol."""

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
    transactional_id: str
    transaction_timeout_ms: int


def producer_options(topic: str | None, settings: Mapping[str, Any]) -> ProducerOptions:
    """Return the options for the Producer's arguments, `settings`. Raises ConfigError for invalid ones."""
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
        transactional_id=_transactional_id(settings["transactional_id"]),
        transaction_timeout_ms=_timeout_ms(settings["transaction_timeout"]),
    )


def _transactional_id(name: Any) -> str:
    if name is None:
        return ""
    if isinstance(name, str) and 0 < len(name.encode("utf-8", "replace")) <= _LONGEST_ID_BYTES:
        return name
    raise config_error(
        f"transactional_id={name!r:.80} is not valid", hint=f"pass a name of 1 to {_LONGEST_ID_BYTES} bytes"
    )


def _timeout_ms(timeout: Any) -> int:
    timeout_ms = round(1000 * seconds(timeout, "transaction_timeout"))
    if 0 < timeout_ms < 1 << 31:
        return timeout_ms
    raise config_error(
        f"transaction_timeout={timeout!r} is not valid", hint="pass a number of seconds above 0, such as 60"
    )
