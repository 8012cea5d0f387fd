"""A partition of ten gigabytes in a hundred segments: its broker killed, its times looked up, its bytes checked."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import confluent_kafka

import ottla
from loadtest.log.offline import append, dated, keyed_batches, now_ms, offline_log, partition_of
from ottla_broker.storage.log_config import LogConfig
from ottla_core.model import PartitionId
from ottla_core.records.compression import Codec
from ottla_stack.running import RunningStack

SEGMENTS: Final = 100
_SEGMENT_BYTES: Final = 100 << 20
_TOPIC: Final = "long"
_POOL_BYTES: Final = 16 << 20
_STEP_MS: Final = 10
_LIMIT_S: Final = 60.0
_UNFLUSHED: Final = 20_000
"""Records that no fsync has covered when the broker is killed, as far as its flusher lets them."""


class TenGigabytes:
    """Use `running`."""

    def __init__(self, stack: RunningStack, partition: PartitionId, began_ms: int, batches: int) -> None:
        self.directory: Final = stack.directory / "broker-0" / str(partition)
        self._stack: Final = stack
        self._began_ms: Final = began_ms
        self._batches: Final = batches

    @classmethod
    @contextmanager
    def running(cls, directory: Path, *, segments: int = SEGMENTS) -> Iterator[TenGigabytes]:
        """A stack of one broker whose log was written before it started."""
        stack = RunningStack(directory, brokers=1, group_coordinators=1)
        with stack, ottla.Admin(stack.bootstrap) as admin:
            config = {"segment.bytes": _SEGMENT_BYTES, "retention.ms": -1}
            admin.topics.create(_TOPIC, partitions=1, replicas=1, config=config)
            [topic] = admin.topics.describe(_TOPIC)
            partition = partition_of(topic)
        began_ms, batches, rolled = now_ms() - 7 * 86_400_000, 0, 0
        pool = cycle(list(keyed_batches(_POOL_BYTES, 1_000_000, Codec.NONE, seed=2)))
        settings = LogConfig(segment_bytes=_SEGMENT_BYTES, retention_ms=-1)
        with offline_log(directory / "broker-0", partition, _TOPIC, settings) as log:
            while rolled < segments - 1:
                if append(log, dated(next(pool), began_ms + batches * _STEP_MS)):
                    rolled += 1
                    log.flush(now_ms())
                batches += 1
        with stack:
            yield cls(stack, partition, began_ms, batches)

    def restart_killed_s(self) -> float:
        """From the kill in the middle of a load to the next record that is acknowledged."""
        with ottla.Producer(self._stack.bootstrap, topic=_TOPIC, acks="all") as producer:
            for number in range(_UNFLUSHED):
                producer.send(b"x" * 1000, key=b"%d" % number)
            producer.flush()
        began = time.monotonic()
        self._stack.restart("broker-0", number=signal.SIGKILL)
        with ottla.Producer(self._stack.bootstrap, topic=_TOPIC, acks="all") as producer:
            producer.send(b"after").result(_LIMIT_S)
        return time.monotonic() - began

    def lookup_ms(self, times: int) -> dict[str, float]:
        """To the offset of a time, through librdkafka; the middle and the longest."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._stack.bootstrap, "group.id": "unused"})
        source, taken = random.Random(3), []
        for batch in islice(iter(lambda: source.randrange(self._batches), None), times + 1):
            wanted = confluent_kafka.TopicPartition(_TOPIC, 0, self._began_ms + batch * _STEP_MS)
            began = time.monotonic()
            [found] = consumer.offsets_for_times([wanted], timeout=_LIMIT_S)
            taken.append((time.monotonic() - began) * 1000)
            assert found.error is None, found.error
            assert found.offset == batch * 16, f"{found.offset} is not the first record of batch {batch}"
        consumer.close()
        return {"p50": statistics.median(taken[1:]), "most": max(taken[1:])}  # the first connects

    def verify(self) -> dict[str, Any]:
        """Verify all bytes in a process of `ottla log verify`; return bytes and CPU seconds."""
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "log", "verify", str(self.directory)], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"`ottla log verify` ended with {process.returncode}")
        size_bytes = sum(path.stat().st_size for path in self.directory.glob("*.log"))
        return {"bytes": size_bytes, "core_s": used.ru_utime + used.ru_stime}
