"""One clean of a log: by ottla's worker, and by Apache Kafka's cleaner on the same segments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from peers.kafka.server import KafkaServer

from loadtest.log.offline import append, keyed_batches, now_ms, offline_log
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult, SourceSegment
from ottla_broker.compaction.offset_map import bytes_for
from ottla_broker.storage.log_config import LogConfig
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.compression import Codec
from ottla_stack.running import wait_for

KEYS: Final = 20_000
_SEGMENT_BYTES: Final = 16 << 20
_LIMIT_S: Final = 120.0
_CLEANED: Final = re.compile(r"([\d,.]+) MB of log processed in ([\d,.]+) seconds")


def make_log(directory: Path, size_bytes: int, codec: Codec) -> CleaningJob:
    """A log of so many bytes of records before compression, and the clean of all its segments but the last."""
    partition = PartitionId(TopicId(bytes(range(16))), 0)
    config = LogConfig(segment_bytes=_SEGMENT_BYTES)
    with offline_log(directory, partition, "table", config) as log:
        for batch in keyed_batches(size_bytes, KEYS, codec, seed=1):
            append(log, batch)
        bounds = [*(segment.base_offset for segment in log.segments)]
        sizes = [segment.size_bytes for segment in log.segments]
    sources = [SourceSegment(*each) for each in zip(bounds[:-1], bounds[1:], sizes[:-1], strict=True)]
    return CleaningJob(
        directory / str(partition),
        sources,
        log_start_offset=0,
        first_dirty_offset=0,
        end_offset=bounds[-1],
        now_ms=now_ms(),
        delete_retention_ms=86_400_000,
        segment_bytes=1 << 30,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        map_bytes=bytes_for(bounds[-1]),
        most_bytes_per_s=0,
        newest_batches=frozenset(),
        drops_keyless=True,
    )


def clean(job: CleaningJob) -> dict[str, Any]:
    """In a worker of its own, from its start to its end; what it wrote is removed. `core_s` is its CPU."""
    began = os.times().elapsed
    command = [sys.executable, "-m", "ottla_broker.compaction"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(job.to_json().encode() + b"\n")
    worker.stdin.flush()
    while CleanedGroup.from_json(line := worker.stdout.readline()) is not None:
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    result = CleaningResult.from_json(line)
    _, status, used = os.wait4(worker.pid, 0)
    worker.returncode = os.waitstatus_to_exitcode(status)
    worker.stdin.close()
    worker.stdout.close()
    for path in Path(job.directory).glob("*.cleaned"):
        path.unlink()
    return {
        "seconds": os.times().elapsed - began,
        "core_s": used.ru_utime + used.ru_stime,
        "map_bytes": result.map_bytes_used,
        "end_offset": result.end_offset,
        "kept": result.records_kept,
    }


class KafkaCleaner:
    """A Kafka node that has the log in many topics; `clean` lets its cleaner have one of them."""

    def __init__(self, directory: Path, job: CleaningJob, copies: int) -> None:
        self.server: Final = KafkaServer(directory)
        self._log: Final = directory / "node-0.log"
        with self.server:
            admin = self._admin()
            topics = [NewTopic(f"table-{n}", 1, 1, config={"cleanup.policy": "delete"}) for n in range(copies)]
            for created in admin.create_topics(topics).values():
                created.result(_LIMIT_S)
        for number in range(copies):
            folder = directory / "node-0" / f"table-{number}-0"
            for path in [*folder.glob("*.log"), *folder.glob("*.index"), *folder.glob("*.timeindex")]:
                path.unlink()
            for path in Path(job.directory).glob("*.log"):
                shutil.copy(path, folder / path.name)
        for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            (directory / "node-0" / name).unlink(missing_ok=True)

    def clean(self, number: int) -> dict[str, Any]:
        """What the cleaner logs of a clean: from its first read to its last swap."""
        before = len(_CLEANED.findall(self._log.read_text()))
        entries = [
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("min.cleanable.dirty.ratio", "0", incremental_operation=AlterConfigOpType.SET),
        ]
        resource = ConfigResource(ResourceType.TOPIC, f"table-{number}", incremental_configs=entries)
        admin = self._admin()  # kept until it has its answer
        for altered in admin.incremental_alter_configs([resource]).values():
            altered.result(_LIMIT_S)
        found = wait_for(
            lambda: _CLEANED.findall(self._log.read_text())[before:], "Kafka to clean the log", limit_s=_LIMIT_S
        )
        return {"seconds": float(found[0][1].replace(",", "")), "mb": float(found[0][0].replace(",", ""))}

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 0})
