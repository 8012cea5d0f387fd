"""`ottla log …`: the options of each command, its output, and the exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.client.units import parse_duration
from ottla.errors import config_error
from ottla_cli.connection import open_admin
from ottla_cli.failures import ExitCode
from ottla_cli.lazy import Command
from ottla_cli.options import Numbers
from ottla_cli.output import Listing, form_for, write
from ottla_cli.prompts import confirm
from ottla_cli.settings import Settings
from ottla_cli.terminal import put, say
from ottla_core.files.private_files import private_files
from ottla_core.plural import counted
from ottla_stack.log_tools.compact import compact
from ottla_stack.log_tools.damage import Damage
from ottla_stack.log_tools.dump import items_of
from ottla_stack.log_tools.export import export
from ottla_stack.log_tools.import_log import check_ends, import_log, sources_of
from ottla_stack.log_tools.items import Item, as_text
from ottla_stack.log_tools.log_files import LogFiles, find_logs, naming_failures, reading
from ottla_stack.log_tools.reindex import rebuild
from ottla_stack.log_tools.verify import LogVerifier, SegmentReport

_HELP: Final = "Inspect, check, compact, export and import log files."
_SEGMENT_COLUMNS: Final = ("file", "base_offset", "next_offset", "batches", "records", "bytes", "gaps", "state")
_INDEX_COLUMNS: Final = ("file", "next_offset", "offset_entries", "time_entries")

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Segment files, partition directories or data directories."),
]
TopicName = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="Only the logs of this topic, if PATH is a data directory."),
]

app = typer.Typer(add_completion=False, rich_markup_mode=None, help=_HELP)


@app.callback(help=_HELP)
def log(ctx: typer.Context) -> None:
    ctx.with_resource(private_files())  # an export has records, too


@app.command("dump", cls=Command)
def dump(
    ctx: typer.Context,
    paths: Paths,
    topic: TopicName = None,
    partition: Numbers = None,
    records: Annotated[bool, typer.Option("--records", "-r", help="Also show the records inside the batches.")] = False,
) -> None:
    """Show the batches in segment files.

    PATH may also be an index, a producer snapshot, a checkpoint or a partition.metadata file.

    Prints one line per batch or entry, with the field names of kafka-dump-log; -o jsonl prints JSON lines for programs.

    Exits with code 1 if a file can't be read, or if the CRC of a batch does not match its bytes.
    """
    form, state = form_for(Settings.of(ctx).output, sys.stdout), _State()
    with naming_failures():
        items = _noted(_dumped(_files(paths, topic, partition or []), records=records), state)
        if form == "table":
            _print_lines(items)
        else:
            write(Listing("log-dump/v1", items, name="file"), form)
    if state.is_damaged:
        raise typer.Exit(ExitCode.FAILED)


class _State:
    """It notes whether something was damaged."""

    is_damaged = False


def _files(paths: Iterable[Path], topic: str | None, partitions: list[int]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        else:
            for found in find_logs(path, topic, partitions):
                yield from found.segments


def _dumped(files: Iterable[Path], *, records: bool) -> Iterator[Item]:
    for path in files:
        items = items_of(path, records=records)
        try:
            with reading(path):
                for item in items:
                    yield {"file": str(path), **item}
        except ValueError as error:
            yield {"file": str(path), "type": "damage", "position": 0, "problem": f"it is torn ({error})"}


def _noted(items: Iterable[Item], state: _State) -> Iterator[Item]:
    for item in items:
        state.is_damaged |= item["type"] == "damage" or item.get("is_valid") is False
        if item["type"] == "damage":
            say(f"ottla: {item['file']}: at position {item['position']}: {item['problem']}; see ottla log verify")
        yield item


def _print_lines(items: Iterable[Item]) -> None:
    shown = ""
    for item in items:
        if item["file"] != shown:
            shown = item["file"]
            put(f"Dumping {shown}")
        put(as_text(item))


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context,
    paths: Paths,
    topic: TopicName = None,
    partition: Numbers = None,
    deep: Annotated[bool, typer.Option("--deep", help="Also read the records inside the batches.")] = False,
    compacted: Annotated[
        bool,
        typer.Option("--compacted", help="Accept offset gaps between segments, which compaction leaves behind."),
    ] = False,
) -> None:
    """Check every byte of segments, their indexes and the other files in their directories. Nothing is changed.

    Prints one line for each damaged position, in order. Exits with code 1 if anything is damaged.
    """
    checks = _Checks(deep=deep, compacted=compacted)
    with naming_failures():
        logs = [found for path in paths for found in find_logs(path, topic, partition or [])]
        items = (_item(report) for found in logs for report in checks.reports(found))
        write(Listing("log-checks/v1", items, _SEGMENT_COLUMNS, name="file"), Settings.of(ctx).output)
    checks.conclude()


class _Checks:
    """Checks one log after the other. Damage is reported at once."""

    def __init__(self, *, deep: bool, compacted: bool) -> None:
        self._deep = deep
        self._compacted = compacted
        self._began_at = time.monotonic()
        self._segments = self._bytes = self._damages = 0

    def reports(self, found: LogFiles) -> Iterator[SegmentReport]:
        verifier = LogVerifier(found, deep=self._deep, is_compacted=self._compacted)
        for report in verifier.segments():
            self._segments += 1
            self._bytes += report.size_bytes
            self._report(report.damages)
            yield report
        self._report(verifier.other_files())

    def _report(self, damages: Iterable[Damage]) -> None:
        for damage in damages:
            self._damages += 1
            offset = f", offset {damage.offset}" if damage.offset >= 0 else ""
            say(f"ottla: {damage.path}: at position {damage.position}{offset}: {damage.problem}; {damage.remedy}")

    def conclude(self) -> None:
        seconds = max(time.monotonic() - self._began_at, 1e-9)
        rate = f"{self._bytes:,} bytes in {seconds:.1f} s, {self._bytes / seconds / 1e6:,.0f} MB/s"
        result = f"damaged at {counted(self._damages, 'position')}" if self._damages else "no damage"
        say(f"{counted(self._segments, 'segment')}, {rate}: {result}")
        if self._damages:
            raise typer.Exit(ExitCode.FAILED)


def _item(report: SegmentReport) -> dict[str, Any]:
    return {
        "file": str(report.path),
        "base_offset": report.base_offset,
        "next_offset": report.next_offset,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.size_bytes,
        "gaps": report.gaps,
        "state": "damaged" if report.damages else "good",
    }


@app.command("index", cls=Command)
def index(ctx: typer.Context, paths: Paths, topic: TopicName = None, partition: Numbers = None) -> None:
    """Rebuild the offset and time indexes of segments. Stop the broker that owns the directory first.

    Exits with code 1 if a segment does not end with a complete batch.
    """
    with naming_failures():
        logs = [found for path in paths for found in find_logs(path, topic, partition or [])]
        rebuilt = [done for found in logs for done in rebuild(found)]
    items = [{**done._asdict(), "file": str(done.file)} for done in rebuilt]
    write(Listing("log-indexes/v1", items, _INDEX_COLUMNS, name="file"), Settings.of(ctx).output)
    torn = [done.file for done in rebuilt if done.next_offset < 0]
    for file in torn:
        say(f"ottla: {file} does not end with a whole batch, so its indexes cover what is before; see ottla log verify")
    if torn:
        raise typer.Exit(ExitCode.FAILED)


@app.command("compact", cls=Command)
def compact_log(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of one partition.")],
    delete_retention: Annotated[
        str, typer.Option(metavar="TIME", help="How long to keep a tombstone after its first cleaning.")
    ] = "24h",
    min_lag: Annotated[str, typer.Option(metavar="TIME", help="Do not compact records younger than this.")] = "0s",
    drop_keyless: Annotated[
        bool,
        typer.Option(
            "--drop-keyless", help="Drop records without a key; by default, a log with such a record is not compacted."
        ),
    ] = False,
) -> None:
    """Compact a partition's log as its broker would. Stop the broker first.

    The directory does not contain the topic's configs: if delete.retention.ms or min.compaction.lag.ms differs from the
    default, pass it with --delete-retention or --min-lag.
    """
    settings = Settings.of(ctx)
    delete_retention_ms = round(parse_duration(delete_retention, "--delete-retention") * 1000)
    min_lag_ms = round(parse_duration(min_lag, "--min-lag") * 1000)
    confirm(f"Compact {directory}? The newest record of each key stays, and all older ones are removed.", settings)
    with naming_failures():
        done = compact(
            directory,
            delete_retention_ms=delete_retention_ms,
            min_lag_ms=min_lag_ms,
            drops_keyless=drop_keyless,
        )
    item = {**done._asdict(), "directory": str(done.directory), "seconds": round(done.seconds, 3)}
    write(Listing("log-compactions/v1", [item], name="directory"), settings.output)


@app.command("export", cls=Command)
def export_log(
    ctx: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The directory in which to create TOPIC-PARTITION.")],
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic's name or id.")],
    partition: Annotated[int, typer.Option("--partition", "-p", metavar="N", help="The partition.")],
    directory: Annotated[Path, typer.Option("--dir", metavar="DATA", help="The broker's data directory.")],
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The topic's id in the other cluster; default: its current id.")
    ] = None,
) -> None:
    """Copy a partition's log in the layout of a Kafka broker.

    The command checks every byte, and does not copy a damaged log. docs/operate/log-tools.md explains how to serve
    the copy from a Kafka broker.
    """
    with naming_failures():
        found, *others = find_logs(directory, topic, [partition])
        if others:
            names = ", ".join(str(log.directory) for log in (found, *others))
            raise config_error(f"{topic}-{partition} is in {names}", hint="pass one of them as --dir")
        made, reports = export(found, out, topic_id)
    items = [{**_item(report), "file": str(made / report.path.name)} for report in reports]
    write(Listing("log-exports/v1", items, _SEGMENT_COLUMNS, name="file"), Settings.of(ctx).output)


@app.command("import", cls=Command)
def import_logs(
    ctx: typer.Context,
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Partition directories from a Kafka broker or `ottla log export`."),
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="An empty topic in the cluster.")],
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="N", help="The topic's partition; default: the partition in DIR's name."
        ),
    ] = None,
    compacted: Annotated[
        bool,
        typer.Option("--compacted", help="Accept offset gaps between segments, which compaction leaves behind."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted import of the same logs.")] = False,
) -> None:
    """Append partition logs to an empty topic through its leaders. Offsets, timestamps and compression stay the same.

    The command checks every byte before it sends any. docs/operate/log-tools.md lists what an import changes.
    """
    settings = Settings.of(ctx)
    with naming_failures(), open_admin(settings) as admin:
        sources = sources_of(directories, partition, compacted=compacted)
        ends = check_ends(admin, topic, sources, resume=resume)
        done = [import_log(admin, topic, source, ends[source.partition], settings.timeout) for source in sources]
    items = [{**each._asdict(), "directory": str(each.directory), "seconds": round(each.seconds, 3)} for each in done]
    write(Listing("log-imports/v1", items, name="directory"), settings.output)
