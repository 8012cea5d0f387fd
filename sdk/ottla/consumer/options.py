"""A consumer's arguments, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.limits import fetch_limits
from ottla.client.settings import bootstrap_addresses, one_of, positive
from ottla.client.units import seconds, size_bytes
from ottla.consumer.fetch import FetchOptions
from ottla.consumer.group.listener import listener_of
from ottla.consumer.group.options import GroupOptions, check_no_group, group_options
from ottla.consumer.start_offsets import ReadingPlan
from ottla.machines.subscription import FetchLimits
from ottla.serdes.record_reader import Serdes, serdes_of
from ottla.serdes.serdes import deserializer

_LEVELS: Final = ("read_committed", "read_uncommitted")


@dataclass(frozen=True)
class ConsumerOptions:
    """Checked arguments, times in seconds. `plan` says what to read: a group's share, or these partitions.
    `max_records` None is no limit."""

    bootstrap: list[str]
    plan: ReadingPlan | GroupOptions
    serdes: Serdes
    skip_bad: bool
    max_records: int | None
    max_poll_records: int
    limits: FetchLimits
    fetch: FetchOptions
    connect_timeout_s: float
    request_timeout_s: float
    metadata_max_age_s: float


def consumer_options(topics: Sequence[str], settings: Mapping[str, Any]) -> ConsumerOptions:
    """Return the options for the Consumer's arguments, `settings`. Raises ConfigError for invalid ones."""
    stop = settings["stop"]
    return ConsumerOptions(
        bootstrap=bootstrap_addresses(settings["bootstrap"]),
        plan=_plan(topics, settings),
        serdes=serdes_of(deserializer(settings["key"], "key"), deserializer(settings["value"], "value")),
        skip_bad=one_of(settings["on_bad_record"], "on_bad_record", ("raise", "skip")) == "skip",
        max_records=stop if isinstance(stop, int) else None,
        max_poll_records=positive(settings["max_poll_records"], "max_poll_records"),
        limits=fetch_limits(settings),
        fetch=FetchOptions(
            min_bytes=size_bytes(settings["fetch_min_bytes"], "fetch_min_bytes"),
            max_bytes=size_bytes(settings["fetch_max_bytes"], "fetch_max_bytes"),
            max_wait_s=seconds(settings["fetch_max_wait"], "fetch_max_wait"),
            rack=settings["client_rack"],
            read_committed=one_of(settings["isolation_level"], "isolation_level", _LEVELS) == "read_committed",
        ),
        connect_timeout_s=seconds(settings["connect_timeout"], "connect_timeout"),
        request_timeout_s=seconds(settings["request_timeout"], "request_timeout"),
        metadata_max_age_s=seconds(settings["metadata_max_age"], "metadata_max_age"),
    )


def _plan(topics: Sequence[str], settings: Mapping[str, Any]) -> ReadingPlan | GroupOptions:
    if settings["group"] is None:
        check_no_group(settings)
        start, stop, reset = settings["start"], settings["stop"], settings["auto_offset_reset"]
        return ReadingPlan(topics, settings["partitions"], start, stop, reset)
    listener = listener_of(settings["listener"], settings["on_assigned"], settings["on_revoked"], settings["on_lost"])
    return group_options(topics, settings, listener)
