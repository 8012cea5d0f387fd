"""From exec to the first acknowledged record, by one and the same client that waits at the door."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from peers.kafka.server import KafkaServer, takes_connections

from loadtest.kafka.comparison import ANY, Figure, Goal, Pair
from ottla_core.host_port import HostPort
from ottla_stack.running import RunningStack

LIMIT_S: Final = 60.0
_POLL_S: Final = 0.005
_EAGER: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Start:
    """ottla always starts from nothing; Kafka from a folder that is formatted already, or from nothing as well."""

    figure: Figure
    formatted: bool


STARTS: Final = (
    Start(
        Figure("start", "exec to first record, Kafka's storage already formatted", Goal(least=3), "seconds", "s", True),
        True,
    ),
    Start(Figure("start_new", "… from nothing on both sides", ANY, "seconds", "s", True), False),
)


def measure(start: Start, pairs: int) -> list[Pair]:
    """One pair more is run before, and thrown away: it brings the programs into the page cache."""
    return [({"seconds": _of_ottla()}, {"seconds": _of_kafka(formatted=start.formatted)}) for _ in range(pairs + 1)][1:]


def _of_ottla() -> float:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        stack = RunningStack(Path(folder), brokers=1, group_coordinators=1, txn_coordinators=1)
        return _seconds_to_first_record(stack, stack.bootstrap)


def _of_kafka(*, formatted: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        kafka = KafkaServer(Path(folder))
        if formatted:
            kafka.format()
        return _seconds_to_first_record(kafka, kafka.bootstrap)


def _seconds_to_first_record(server: AbstractContextManager[Any], bootstrap: str) -> float:
    with ThreadPoolExecutor(1) as waiting:
        first = waiting.submit(first_acknowledged_at, bootstrap)
        began = time.monotonic()
        with server:
            return first.result(LIMIT_S) - began


def first_acknowledged_at(bootstrap: str) -> float:
    """When a record to a new topic was acknowledged, on the monotonic clock. Whoever asks too early asks again."""
    give_up_at = time.monotonic() + LIMIT_S
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **_EAGER}
    _until(lambda: takes_connections(HostPort.parse(bootstrap).port), give_up_at)
    admin = AdminClient(settings)
    _until(lambda: _names_brokers(admin), give_up_at)
    admin.create_topics([NewTopic("first", 1, 1)])["first"].result(LIMIT_S)
    producer = Producer({**settings, "acks": 1, "linger.ms": 0})
    producer.produce("first", b"value")
    if producer.flush(LIMIT_S):
        raise TimeoutError(f"no record was acknowledged at {bootstrap}")
    return time.monotonic()


def _names_brokers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False


def _until(is_so: Callable[[], bool], give_up_at: float) -> None:
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the server does not serve within {LIMIT_S:g} s")
        time.sleep(_POLL_S)
