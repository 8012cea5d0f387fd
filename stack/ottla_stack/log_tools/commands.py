"""`ottla log …`: the options of each command, what is written, and the exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ottla.cli.connection import open_admin
from ottla.cli.failures import ExitCode, say
from ottla.cli.lazy import Command
from ottla.cli.options import Numbers
from ottla.cli.output import Listing, form_for, write
from ottla.cli.prompts import confirm
from ottla.cli.settings import Settings
from ottla.client.units import parse_duration
from ottla.errors import config_error
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

_HELP: Final = "Look into log files, check, compact, export and import them."
_SEGMENT_COLUMNS: Final = ("file", "base_offset", "next_offset", "batches", "records", "bytes", "gaps", "state")
_INDEX_COLUMNS: Final = ("file", "next_offset", "offset_entries", "time_entries")

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Segments, partitions' directories, or data directories."),
]
TopicName = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="In a data directory, only the logs of this topic.")
]

app = typer.Typer(add_completion=False, rich_markup_mode=None, help=_HELP)


@app.callback(help=_HELP)
def log() -> None: ...


@app.command("dump", cls=Command)
def dump(
    ctx: typer.Context,
    paths: Paths,
    topic: TopicName = None,
    partition: Numbers = None,
    records: Annotated[bool, typer.Option("--records", "-r", help="Also show the records inside the batches.")] = False,
) -> None:
    """Show the batches of segments. A PATH may also be an index, a producer snapshot, a checkpoint, partition.metadata.

    One line each, with the names of kafka-dump-log; JSON lines for a program (-o jsonl).

    Exit code 1 if something can't be read, or if the CRC of a batch does not match its bytes.
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
    """Whether something was damaged."""

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
            print("Dumping", shown)
        print(as_text(item))


@app.command("verify", cls=Command)
def verify(
    ctx: typer.Context,
    paths: Paths,
    topic: TopicName = None,
    partition: Numbers = None,
    deep: Annotated[bool, typer.Option("--deep", help="Also read the records inside the batches.")] = False,
    compacted: Annotated[
        bool,
        typer.Option("--compacted", help="Offsets may be missing between segments, as compaction leaves them out."),
    ] = False,
) -> None:
    """Check every byte of segments, their indexes, and the files beside them. Changes nothing.

    Exit code 1 if something is damaged; each damage is a line with its file and position, in order.
    """
    checks = _Checks(deep=deep, compacted=compacted)
    with naming_failures():
        logs = [found for path in paths for found in find_logs(path, topic, partition or [])]
        items = (_item(report) for found in logs for report in checks.reports(found))
        write(Listing("log-checks/v1", items, _SEGMENT_COLUMNS, name="file"), Settings.of(ctx).output)
    checks.conclude()


class _Checks:
    """Checks one log after the other; damage is reported at once."""

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
    """Rebuild both indexes of segments. Stop the broker that owns the directory first.

    Exit code 1 if a segment does not end with a whole batch.
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
        str, typer.Option(metavar="TIME", help="How long a tombstone stays after its first cleaning.")
    ] = "24h",
    min_lag: Annotated[str, typer.Option(metavar="TIME", help="Leave records younger than this as they are.")] = "0s",
    drop_keyless: Annotated[
        bool,
        typer.Option(
            "--drop-keyless", help="Drop records without a key; by default, a log that has one is left alone."
        ),
    ] = False,
) -> None:
    """Clean the log of a compacted topic as its broker would. Stop that broker first.

    The directory holds no configs: if the topic's delete.retention.ms or min.compaction.lag.ms differs from the
    default, pass it.
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
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic's name, or its id.")],
    partition: Annotated[int, typer.Option("--partition", "-p", metavar="N", help="The partition.")],
    directory: Annotated[Path, typer.Option("--dir", metavar="DATA", help="The broker's data directory.")],
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The topic's id in the other cluster; default: its own.")
    ] = None,
) -> None:
    """Copy a partition's log as Kafka's brokers keep it. Every byte is checked on the way; a damaged log is not copied.

    See docs/operate/log-tools.md for how to have a Kafka broker serve it.
    """
    with naming_failures():
        found, *others = find_logs(directory, topic, [partition])
        if others:
            names = ", ".join(str(log.directory) for log in (found, *others))
            raise config_error(f"{topic}-{partition} is in {names}", hint="give one of them as --dir")
        made, reports = export(found, out, topic_id)
    items = [{**_item(report), "file": str(made / report.path.name)} for report in reports]
    write(Listing("log-exports/v1", items, _SEGMENT_COLUMNS, name="file"), Settings.of(ctx).output)


@app.command("import", cls=Command)
def import_logs(
    ctx: typer.Context,
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of partitions: Kafka's, or exports of ottla's.")
    ],
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="An empty topic of the cluster.")],
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", help="Its partition; default: the one in DIR's name."),
    ] = None,
    compacted: Annotated[
        bool,
        typer.Option("--compacted", help="Offsets may be missing between segments, as compaction leaves them out."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an import of the same logs that was interrupted.")
    ] = False,
) -> None:
    """Append partitions' logs to an empty topic, through its leaders: offsets, times and compression stay.

    Every byte is checked before the first is sent. See docs/operate/log-tools.md for what changes.
    """
    settings = Settings.of(ctx)
    with naming_failures(), open_admin(settings) as admin:
        sources = sources_of(directories, partition, compacted=compacted)
        ends = check_ends(admin, topic, sources, resume=resume)
        done = [import_log(admin, topic, source, ends[source.partition], settings.timeout) for source in sources]
    items = [{**each._asdict(), "directory": str(each.directory), "seconds": round(each.seconds, 3)} for each in done]
    write(Listing("log-imports/v1", items, name="directory"), settings.output)
