"""A log that the broker's own code writes without a broker: gigabytes in seconds."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import ottla
from ottla_broker.storage.identity import DirectoryIdentity, load_identity, new_directory_id
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import HEADER_SIZE, framed, read_header
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder

RECORD_BYTES: Final = 1_000
_A_BATCH: Final = 16
_RANDOM_BYTES: Final = 500
"""The random bytes of a value; the rest of it is compressible."""


@contextmanager
def offline_log(directory: Path, partition: PartitionId, topic: str, config: LogConfig) -> Iterator[Log]:
    """The partition's log in the data directory of a broker that does not run; closed in order afterwards."""
    identity = load_identity(directory) or DirectoryIdentity("bench", 0, new_directory_id())
    log_dir = LogDir.open(directory, identity, config, now_ms=now_ms())
    log = None
    try:
        log = log_dir.create(partition, topic, config, now_ms=now_ms())
        yield log
    finally:
        log_dir.close({partition: log.log_end_offset} if log else {}, now_ms=now_ms())


def partition_of(topic: ottla.TopicInfo, number: int = 0) -> PartitionId:
    return PartitionId(TopicId(bytes.fromhex(topic.id.replace("-", ""))), number)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def keyed_batches(size_bytes: int, keys: int, codec: Codec, seed: int) -> Iterator[bytes]:
    """Batches of records of a kilobyte, `size_bytes` of them before compression, whose keys come at random."""
    source, at_ms = random.Random(seed), now_ms()
    noise = source.randbytes(1 << 16)
    tail = b"x" * (RECORD_BYTES - _RANDOM_BYTES - len(b"key-00000000"))
    for _ in range(size_bytes // (RECORD_BYTES * _A_BATCH)):
        builder = new_builder(1 << 20)
        for _ in range(_A_BATCH):
            begin = source.randrange(len(noise) - _RANDOM_BYTES)
            builder.append(at_ms, b"key-%08d" % source.randrange(keys), noise[begin : begin + _RANDOM_BYTES] + tail)
        yield builder.seal(codec)


def dated(batch: bytes, at_ms: int) -> bytes:
    """The batch with all its records of one time."""
    header = read_header(batch)
    return framed(header._replace(base_timestamp=at_ms, max_timestamp=at_ms), batch[HEADER_SIZE:])


def append(log: Log, batch: bytes) -> bool:
    """As a leader does, with the checks of its records left out; whether a segment was begun for it."""
    return log.append_checked(batch, [read_header(batch)], 0, now_ms()).rolled
