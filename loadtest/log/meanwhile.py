"""What producers notice of a clean: the p99 of their acknowledgements beside one, and without."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import ottla
from loadtest.log.offline import append, keyed_batches, now_ms, offline_log, partition_of
from ottla_broker.storage.log_config import LogConfig
from ottla_core.records.compression import Codec
from ottla_stack.running import RunningStack

SIZE_BYTES: Final = 1 << 30
_KEYS: Final = 20_000
_SEGMENT_BYTES: Final = 64 << 20
_CLEAN_BELOW: Final = 3 * _SEGMENT_BYTES
_EVERY_S: Final = 0.005
_LIMIT_S: Final = 60.0


def produce_p99(directory: Path, pairs: int, *, size_bytes: int = SIZE_BYTES) -> list[tuple[float, float]]:
    """ms of each pair, beside a clean and for as long without one: one record at a time, acks=all."""
    stack = RunningStack(directory, brokers=1, group_coordinators=1)
    names = [f"table-{number}" for number in range(pairs + 1)]
    with stack, ottla.Admin(stack.bootstrap) as admin:
        admin.topics.create("hot", partitions=1, replicas=1)
        for name in names:
            admin.topics.create(name, partitions=1, replicas=1, config={"segment.bytes": _SEGMENT_BYTES})
        partitions = {topic.name: partition_of(topic) for topic in admin.topics.describe(*names)}
    batches = list(keyed_batches(size_bytes, _KEYS, Codec.NONE, seed=4))
    for name in names:
        with offline_log(
            directory / "broker-0", partitions[name], name, LogConfig(segment_bytes=_SEGMENT_BYTES)
        ) as log:
            for batch in batches:
                append(log, batch)
            log.flush(now_ms())
    with stack, ottla.Admin(stack.bootstrap) as admin:
        found = [_pair(stack, admin, directory / "broker-0" / str(partitions[name]), name) for name in names]
    return found[1:]  # the first warms up


def _pair(stack: RunningStack, admin: ottla.Admin, folder: Path, topic: str) -> tuple[float, float]:
    admin.configs.set({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}, topic=topic)
    with ottla.Producer(stack.bootstrap, topic="hot", acks="all", linger=0) as producer:
        beside, until = [], time.monotonic() + _LIMIT_S
        while not (is_cleaned := _is_cleaned(folder)) and time.monotonic() < until:
            beside += [_send(producer) for _ in range(100)]
        assert is_cleaned, f"{folder} is not cleaned after {_LIMIT_S:g} s"
        alone = [_send(producer) for _ in beside]
    return _p99(beside), _p99(alone)


def _send(producer: ottla.Producer) -> float:
    """ms to the acknowledgement, at a steady rate."""
    time.sleep(_EVERY_S)
    began = time.perf_counter()
    producer.send(b"x" * 1000).result(_LIMIT_S)
    return (time.perf_counter() - began) * 1000


def _is_cleaned(folder: Path) -> bool:
    with suppress(FileNotFoundError):  # a segment goes meanwhile
        return sum(path.stat().st_size for path in folder.glob("*.log")) < _CLEAN_BELOW
    return False


def _p99(taken_ms: list[float]) -> float:
    return statistics.quantiles(taken_ms, n=100)[98]
