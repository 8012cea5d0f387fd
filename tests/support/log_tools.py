"""A data directory for the tools of `ottla log`, written by the broker's own code, and the command line on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import NOON, raw_batch, raw_record, sealed
from logs import SMALL, fill
from produced import produced
from transactional_logs import end_of, end_transaction, transactions_told_by

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.identity import DirectoryIdentity, new_directory_id
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_cli import lazy
from ottla_cli.main import run
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import TRANSACTIONAL, iter_headers, read_header
from ottla_core.records.compression import Codec
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_stack.log_tools import commands

TOPIC_ID = TopicId(bytes(range(16)))


def write_data(directory: Path, *, partitions: int = 1, batches: int = 30, config: LogConfig = SMALL) -> Path:
    """A broker's directory after an orderly stop: `orders` of two epochs, in several segments, with every codec, a
    fence, and a producer's batch. The directory of its partition 0."""
    identity = DirectoryIdentity("cluster", 1, new_directory_id())
    log_dir = LogDir.open(directory, identity, config, now_ms=NOON)
    for number in range(partitions):
        log = log_dir.create(PartitionId(TOPIC_ID, number), "orders", config, now_ms=NOON)
        fill(log, batches)
        fence = seal_fence(ShardFence(3, 77), NOON)
        log.append_checked(fence, [read_header(fence)], 2, NOON)
        log.append(raw_batch(raw_record(0), producer_id=5, producer_epoch=0, base_sequence=0), 2, NOON)
        for codec in Codec:
            log.append(sealed([(0, NOON, b"key", b"value" * 20, [("a", b"b")])] * 3, codec), 2, NOON)
    log_dir.close({}, now_ms=NOON)
    return directory / f"{TOPIC_ID.hex()}-0"


def ottla_log(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """The exit code of `ottla log …`, whatever release is installed."""
    monkeypatch.setattr(lazy, "_from_server", lambda _: commands.app)
    return run(["log", *map(str, arguments)])


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


KEYS = 20


def write_compacted(directory: Path, *, batches: int = 400, high_watermark: int | None = None) -> Path:
    """A broker's directory after an orderly stop: `table`, whose batches of three give keys `k0` to `k19` ever newer
    values, the records' offsets. Its partition."""
    identity = DirectoryIdentity("cluster", 1, new_directory_id())
    config = LogConfig(segment_bytes=4000, index_interval_bytes=500, compacts=True)
    log_dir = LogDir.open(directory, identity, config, now_ms=NOON)
    id_ = PartitionId(TOPIC_ID, 0)
    log = log_dir.create(id_, "table", config, now_ms=NOON)
    for n in range(batches):
        at, codec = 3 * n, list(Codec)[n % len(Codec)]
        rows: list[RawRecord] = [(i, NOON + at + i, b"k%d" % ((at + i) % KEYS), b"%d" % (at + i), []) for i in range(3)]
        log.append(sealed(rows, codec), 1 + n // 100, NOON)
    log_dir.close({id_: log.log_end_offset if high_watermark is None else high_watermark}, now_ms=NOON)
    return directory / str(id_)


def table_in(directory: Path) -> dict[bytes | None, bytes | None]:
    """The newest value of each key, with the offsets of all records checked to rise."""
    found, last = {}, -1
    for path in segments(directory):
        data = path.read_bytes()
        for at, header in iter_headers(data):
            for offset, _, key, value, _ in read_records(data[at : at + header.size_bytes]):
                assert offset > last
                found[key], last = value, offset
    return found


def write_transactions(directory: Path) -> tuple[Path, list[AbortedTransaction]]:
    """A broker's directory after an orderly stop: `orders`, in several segments, with ten transactions of two producers
    each, every other one aborted. Its partition, and what was aborted."""
    identity = DirectoryIdentity("cluster", 1, new_directory_id())
    log_dir = LogDir.open(directory, identity, SMALL, now_ms=NOON)
    log = log_dir.create(PartitionId(TOPIC_ID, 0), "orders", SMALL, now_ms=NOON)
    for number in range(10):
        for producer_id in (7, 8):
            batch = produced(0, producer_id=producer_id, epoch=number, value=b"v" * 100, attributes=TRANSACTIONAL)
            log.append(batch, 1, NOON, transactional=True)
        for producer_id in (7, 8):
            end_transaction(log, end_of(producer_id, number + 1, committed=bool(number % 2)))
    told = transactions_told_by(log).aborted
    log_dir.close({}, now_ms=NOON)
    return directory / f"{TOPIC_ID.hex()}-0", told
