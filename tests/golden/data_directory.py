"""A broker's data directory with one log, as a stop or a kill leaves it, and what a start reads from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from unittest.mock import patch

from batches import NOON

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.producers import ProducerState
from ottla_broker.machines.shard import NO_FENCE, StoredFence
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage import files
from ottla_broker.storage.identity import DirectoryIdentity, load_identity
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir, NewLog
from ottla_broker.storage.soundness import CLEAN_SHUTDOWN, Incarnation
from ottla_core.cluster.history import History
from ottla_core.model import PartitionId
from ottla_core.records.batch import iter_headers
from ottla_core.records.leader_epochs import EpochStart

_CONFIG: Final = LogConfig(segment_bytes=450, index_interval_bytes=100)
_BINARY: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_LOCK: Final = ".lock"
"""A file that nobody reads: it contains the number of the process that holds the lock."""


class DataDirectory(NamedTuple):
    """The content of a directory. `write_directory` uses the first fields, and a start finds out the others."""

    identity: DirectoryIdentity
    partition: PartitionId
    batches: tuple[bytes, ...]
    high_watermark: int
    history: History
    incarnation: Incarnation
    is_closed: bool = True
    renewals: int = 0
    is_sound: bool = False
    epochs: tuple[EpochStart, ...] = ()
    producers: Mapping[int, ProducerState | None] = {}
    aborted: tuple[AbortedTransaction, ...] = ()
    fence: StoredFence = NO_FENCE
    offset_in_time: int = 0


def write_directory(made: DataDirectory) -> dict[str, str | bytes]:
    """Return the files, by their paths."""
    with _emptied() as path:
        log_dir = LogDir.open(path, made.identity, _CONFIG, now_ms=NOON)
        (log,) = log_dir.create_all([NewLog(made.partition, "orders", _CONFIG)], now_ms=NOON)
        assert not isinstance(log, Exception), log
        for batch in made.batches:
            log.append_replicated(batch, NOON)
        log_dir.followed = made.history
        log_dir.vouch(made.incarnation)
        log_dir.close({made.partition: HighWatermark(made.high_watermark)}, now_ms=NOON)
        names = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
        return {
            name: (path / name).read_bytes() if name.endswith(_BINARY) else (path / name).read_text()
            for name in names
            if name != _LOCK and (made.is_closed or name != CLEAN_SHUTDOWN)
        }


def read_directory(written: Mapping[str, str | bytes]) -> DataDirectory:
    """Open a directory that has these files."""
    with _emptied() as path:
        for name, content in written.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
            os.utime(path / name, (NOON / 1000, NOON / 1000))
        identity = load_identity(path)
        assert identity is not None
        log_dir = LogDir.open(path, identity, _CONFIG, now_ms=NOON)
        ((partition, log),) = log_dir.logs.items()
        data = b"".join(log.read(segment.base_offset, 1 << 20, log.log_end_offset) for segment in log.segments)
        found = log.offset_for_time(NOON + 1, log.log_end_offset)
        assert log_dir.incarnation is not None, "the start does not trust the directory"
        assert found is not None
        opened = DataDirectory(
            log_dir.identity,
            partition,
            tuple(data[at : at + header.size_bytes] for at, header in iter_headers(data)),
            log_dir.high_watermark(partition),
            log_dir.followed,
            log_dir.incarnation,
            CLEAN_SHUTDOWN in written,
            log_dir.renewals,
            not log_dir.may_have_lost_tail and not log.was_damaged,
            log.epochs.entries,
            {id_: log.producers.get(id_) for id_ in log.producers.entries()},
            tuple(log.aborted.between(log.log_start_offset, log.log_end_offset)),
            log.fence,
            found.offset,
        )
        log_dir.abandon()
        return opened


@contextmanager
def _emptied() -> Iterator[Path]:
    """Yield an empty directory. The machine seems not to restart, and no file seems to be restored from a copy."""
    with (
        TemporaryDirectory() as directory,
        patch.object(files, "boot_id", lambda: "c6ac7f0e-0d5b-4a0f-9f6e-1df1a9a0d6a1"),
        patch.object(files, "version", lambda path: f"version of {path.name}"),
    ):
        yield Path(directory)
