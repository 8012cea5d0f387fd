"""`ottla log export`: one partition's log as Kafka keeps it, in a directory `<topic>-<partition>` that a Kafka broker
serves once it is among its logs.

Batches, offsets and leader epochs stay, and only names change. Indexes are built for it. Producer snapshots, whose
format is ottla's own, are left out, because Kafka makes its own from the batches.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from ottla.client.settings import check_topic
from ottla.errors import config_error
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.identity import META
from ottla_broker.storage.log_dir import PARTITION_METADATA
from ottla_core.records.leader_epochs import EpochStart
from ottla_stack.log_tools.log_files import LogFiles, name_of, read_metadata, reading
from ottla_stack.log_tools.reindex import rebuild
from ottla_stack.log_tools.verify import LogVerifier, SegmentReport

_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_UNFINISHED: Final = ".unfinished"


def export(log: LogFiles, out: Path, topic_id: str | None = None) -> tuple[Path, list[SegmentReport]]:
    """Copy the log into `out`, under Kafka's name for it. Return its directory, fsynced, and what was copied.

    `topic_id` is the topic's id in the other cluster, 22 characters of base64. None means its id in this one. Raises
    ConfigError if `out` can't be used, and FatalError for a damaged log. Nothing is left behind then.
    """
    name = name_of(log.directory)
    check_topic(name.topic)  # because a file's text becomes a path
    directory = out / f"{name.topic}-{name.partition}"
    uuid = topic_id or read_metadata(log.directory).get("topic_id", "")
    if not _UUID.fullmatch(uuid):
        raise config_error(f"{uuid!r} is not a topic id", hint="pass the TopicId that kafka-topics --describe shows")
    if (out / META).exists():
        raise config_error(
            f"{out} is a broker's data directory", hint="export into another directory, and move the log in from there"
        )
    draft = directory.with_name(directory.name + _UNFINISHED)
    for path in (directory, draft):
        if path.exists():
            raise config_error(f"{path} exists", hint="remove it, or export into another directory")
    draft.mkdir(parents=True)
    try:
        reports = _copied(log, draft, uuid)
        draft.rename(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    Disk(out).sync_directory(out)
    return directory, reports


def _copied(log: LogFiles, draft: Path, topic_id: str) -> list[SegmentReport]:
    """Copy segments as far as they were checked, because a running broker may append to them."""
    disk, verifier, reports = Disk(draft), LogVerifier(log), []
    for report in verifier.sound_segments("nothing was exported"):
        path = draft / report.path.name
        with reading(path), report.path.open("rb") as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.truncate(report.size_bytes)
        reports.append(report)
    if not reports:
        raise config_error(f"{log.directory} has no segments", hint="use another replica of the partition")
    end = reports[-1].next_offset
    starts = [start for start in verifier.epochs.entries if start.start_offset < end]
    checkpoint.write_epochs(disk, draft / checkpoint.LEADER_EPOCHS, starts or [EpochStart(0, reports[0].base_offset)])
    disk.replace_file(draft / PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}\n")
    for _ in rebuild(LogFiles(draft, [draft / report.path.name for report in reports], is_whole=True)):
        pass  # each segment is fsynced with its indexes
    return reports
