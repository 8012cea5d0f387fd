"""Small files of a lake made into large ones, beside the job `lake` and its readers: no row is seen twice, or missing.

A streaming query leaves a file for each micro-batch and task. Spark's readers know a lake's files by the list in
`_spark_metadata`, which every tenth micro-batch writes anew. Of the newest such list, the small files of each directory
are written as one, and then the list is replaced by one that names it in their stead, in one step. A list that the
running job writes in that moment names the former files, and nothing has happened. They stay for those who read them,
until a later run finds that --grace is over and the list names others; it deletes what a killed run has written, too.

So the lake is on a local or mounted file system, and read as a table: a stream of it would take a large file for new
rows. One run at a time: a second one ends with an error.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse
from uuid import uuid4

from pyspark.sql import SparkSession

import job

_COMPACT: Final = ".compact"
_JOURNAL: Final = "_compaction"
"""The name of a directory in the lake that says what each run has replaced, and what it is writing. Readers of Parquet
skip such names."""

Entry = dict[str, Any]
"""A file of the list, as Spark writes it."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument(
        "--lake", required=True, type=Path, metavar="DIR", help="the directory that the job `lake` writes"
    )
    found.add_argument(
        "--small", type=int, default=64, metavar="MIB", help="compact files below this size (%(default)s)"
    )
    found.add_argument(
        "--grace",
        type=float,
        default=3600,
        metavar="SECONDS",
        help="how long replaced files stay for readers (%(default)g)",
    )
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return how many files became how many, and how many of earlier runs were deleted. Raises ValueError."""
    with _alone(options.lake) as journal:
        deleted = finish(options.lake, journal, options.grace)
        newest = newest_list(options.lake)
        groups = {} if newest is None else small_files(newest, options.small << 20)
        replaced = sorted(path for entries in groups.values() for path in map(_path, entries))
        report = {"replaced": 0, "written": 0, "deleted": deleted}
        if newest is None or not groups:
            return report
        run_id = uuid4().hex
        staging = journal / run_id
        made = {directory: directory / f"compacted-{run_id}.parquet" for directory in groups}
        record = journal / f"{run_id}.json"  # written before all else, because the remains of a run are found by it
        _write(record, json.dumps({"replaced": replaced, "written": [str(path) for path in made.values()]}))
        for directory, entries in groups.items():
            rows = spark.read.option("mergeSchema", "true").parquet(*map(_path, entries))
            rows.coalesce(1).write.mode("overwrite").parquet(str(staging))
            (part,) = staging.glob("part-*.parquet")
            if spark.read.parquet(str(part)).count() != rows.count():
                raise ValueError(f"{directory}: the compacted file and the small files have different numbers of rows")
            os.replace(part, made[directory])
        shutil.rmtree(staging)
        if newest != newest_list(options.lake):
            return report  # another list is newer by now: the next run deletes what was written
        record.touch()  # the grace begins
        replace(newest, set(replaced), made.values())
    return {**report, "replaced": len(replaced), "written": len(made)}


def newest_list(lake: Path) -> Path | None:
    """Return the newest list that names all earlier files, or None if there were no ten micro-batches yet."""
    return max((lake / "_spark_metadata").glob(f"*{_COMPACT}"), key=_number, default=None)


def small_files(listing: Path, small: int) -> dict[Path, list[Entry]]:
    """Return the files of less than `small` bytes in a list, in directories with several of them."""
    groups: dict[Path, list[Entry]] = defaultdict(list)
    for entry in _entries(listing):
        if entry["size"] < small:
            groups[Path(_path(entry)).parent].append(entry)
    return {directory: entries for directory, entries in groups.items() if len(entries) > 1}


def replace(listing: Path, replaced: set[str], written: Iterable[Path]) -> None:
    """Replace the list by one with `written` instead of what is `replaced`, in one step. Its checksum, which is
    optional, goes before that."""
    version, *_ = listing.read_text().split("\n", 1)
    kept = [entry for entry in _entries(listing) if _path(entry) not in replaced]
    lines = [json.dumps(entry, separators=(",", ":")) for entry in [*kept, *map(_entry, written)]]
    listing.with_name(f".{listing.name}.crc").unlink(missing_ok=True)
    _write(listing, "\n".join([version, *lines]))


def listed(lake: Path) -> set[str]:
    """Return the files of the lake as readers that begin now see them: those of its newest list, and of what came
    after."""
    newest = newest_list(lake)
    lists = [path for path in (lake / "_spark_metadata").iterdir() if path.name.removesuffix(_COMPACT).isdigit()]
    current = [path for path in lists if newest is None or _number(path) >= _number(newest)]
    return {_path(entry) for path in current for entry in _entries(path)}


def finish(lake: Path, journal: Path, grace_s: float) -> int:
    """Delete the files that runs before the last `grace_s` have replaced, or have written in vain. Return how many
    files that were."""
    records = {path: json.loads(path.read_text()) for path in journal.glob("*.json")}
    over = {path: record for path, record in records.items() if path.stat().st_mtime + grace_s <= time.time()}
    used = listed(lake).union(*(record["replaced"] for path, record in records.items() if path not in over))
    deleted = 0
    for path, record in over.items():
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
        names = dict.fromkeys([*record["replaced"], *record["written"]])
        for gone in [Path(name) for name in names if name not in used]:
            deleted += gone.exists()
            gone.unlink(missing_ok=True)
            gone.with_name(f".{gone.name}.crc").unlink(missing_ok=True)
        if used.isdisjoint(record["replaced"]):
            path.unlink()
    return deleted


@contextmanager
def _alone(lake: Path) -> Iterator[Path]:
    """Yield the journal's directory to one run at a time."""
    if not (lake / "_spark_metadata").is_dir():
        raise ValueError(f"{lake} is not the output of a streaming query on this machine: it has no _spark_metadata")
    journal = lake / _JOURNAL
    journal.mkdir(exist_ok=True)
    with (journal / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{lake} is being compacted by another run: wait until that run ends") from None
        yield journal


def _entries(listing: Path) -> list[Entry]:
    """Return the entries of a list, or none if Spark has just deleted it, because a newer list has all of them."""
    try:
        return [json.loads(line) for line in listing.read_text().split("\n")[1:] if line]
    except FileNotFoundError:
        return []


def _entry(path: Path) -> Entry:
    status = path.stat()
    return {
        "path": path.absolute().as_uri(),
        "size": status.st_size,
        "isDir": False,
        "modificationTime": int(status.st_mtime * 1000),
        "blockReplication": 1,
        "blockSize": 32 << 20,
        "action": "add",
    }


def _path(entry: Entry) -> str:
    return unquote(urlparse(entry["path"]).path)


def _number(listing: Path) -> int:
    return int(listing.name.removesuffix(_COMPACT))


def _write(path: Path, text: str) -> None:
    """Write a file as a whole. It is on disk before it counts."""
    following = path.with_name(f".{path.name}.next")
    with following.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(following, path)


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
