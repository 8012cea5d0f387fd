"""Finds the files that a PATH of `ottla log` stands for: one segment, the directory of a partition, or a data
directory.

Directories are ottla's, `<topic id, 32 hex>-<partition>`, or Kafka's, `<topic>-<partition>`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from ottla.errors import ConfigError, ErrorCode, FatalError, config_error
from ottla_broker.storage.log_dir import PARTITION_METADATA
from ottla_broker.storage.recovery import SEGMENT_NAME
from ottla_cli.failures import NotFoundError

_OPENED: Final = re.compile(r"\d{20}\.(log|index|timeindex|snapshot)|.+-checkpoint")
PARTITION_NAME: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\.\w+-\w+-stray)?")


class LogFiles(NamedTuple):
    """Segments of one log, oldest first. They are all that it has if `is_whole`."""

    directory: Path
    segments: Sequence[Path]
    is_whole: bool


class PartitionName(NamedTuple):
    """A topic by its name, or by the 32 hex digits of its id."""

    topic: str
    partition: int


def find_logs(path: Path, topic: str | None = None, partitions: Sequence[int] = ()) -> list[LogFiles]:
    """Return the logs at `path`, only those of that topic (its name or id) and of these partitions.

    Raises NotFoundError, or ConfigError for what is not a log.
    """
    if path.is_file():
        if not SEGMENT_NAME.fullmatch(path.name):
            raise no_log_file(path)
        return [LogFiles(path.parent, [path], is_whole=False)]
    if not path.exists():
        raise NotFoundError(
            f"{path} does not exist", hint="pass a segment, a partition's directory or a data directory"
        )
    found = [path] if _is_partition(path) else list(filter(_is_partition, _subdirectories(path)))
    if not found:
        content = "contains no logs" if any(path.iterdir()) else "is empty"
        raise config_error(f"{path} {content}", hint="pass a segment, a partition's directory or a data directory")
    chosen = [directory for directory in found if _is_chosen(directory, topic, partitions)]
    if not chosen:
        numbers = f"partition {', '.join(map(str, partitions))}" if partitions else ""
        missing = " ".join(filter(None, (topic, numbers)))
        raise NotFoundError(
            f"{path} has no log of {missing}",
            hint=f"it has {', '.join('{}-{}'.format(*name_of(directory)) for directory in found[:5])}"
            + (" and others" if len(found) > 5 else ""),
        )
    return [LogFiles(directory, _segments(directory), is_whole=True) for directory in chosen]


def name_of(directory: Path) -> PartitionName:
    """Return the name by its partition.metadata, if that names the topic, or else by the directory's own name. Return
    ("?", -1) if neither does."""
    fields, name = read_metadata(directory), PARTITION_NAME.fullmatch(directory.resolve().name)
    return PartitionName(
        fields.get("topic") or (name["topic"] if name else "?"), int(name["partition"]) if name else -1
    )


def read_metadata(directory: Path) -> dict[str, str]:
    """Return the fields of partition.metadata, or none if it is missing."""
    try:
        path = _regular(directory / PARTITION_METADATA)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def no_log_file(path: Path) -> ConfigError:
    """Return the error for a file that is not part of a log."""
    return config_error(f"{path} is not part of a log", hint="segments have names such as 00000000000000000000.log")


@contextmanager
def reading(path: PurePath) -> Iterator[None]:
    """Name `path` in a failed read or write of an open file, which names no file itself."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn the failure of a file that can't be read into an error that names it, and says what to do."""
    try:
        yield
    except OSError as error:
        if error.filename is None:  # it is a closed pipe
            raise
        hint = (
            "run it as the user of the broker" if isinstance(error, PermissionError) else "check the disk and the path"
        )
        raise FatalError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.filename}: {error.strerror}", hint=hint) from error


def _is_partition(directory: Path) -> bool:
    names = os.listdir(directory)
    return PARTITION_METADATA in names or any(map(SEGMENT_NAME.fullmatch, names))


def _subdirectories(path: Path) -> list[Path]:
    return sorted(sub for sub in path.iterdir() if PARTITION_NAME.fullmatch(sub.name) and sub.is_dir())


def _is_chosen(directory: Path, topic: str | None, partitions: Sequence[int]) -> bool:
    name, own_name = name_of(directory), PARTITION_NAME.fullmatch(directory.resolve().name)
    is_of_topic = topic in (None, name.topic, own_name and own_name["topic"])
    return is_of_topic and (not partitions or name.partition in partitions)


def _segments(directory: Path) -> list[Path]:
    files = [_regular(directory / name) for name in os.listdir(directory) if _OPENED.fullmatch(name)]
    return sorted(path for path in files if SEGMENT_NAME.fullmatch(path.name))


def _regular(path: Path) -> Path:
    """Return `path`, even if it is gone by now. Raises ConfigError for anything that can't be read to an end: a FIFO, a
    directory, a link to nothing."""
    if (path.exists() or path.is_symlink()) and not path.is_file():
        raise config_error(f"{path} is not a regular file", hint="move it out of the directory, or pass another path")
    return path
