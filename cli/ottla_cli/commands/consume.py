"""`ottla consume`: the records of a topic, from a position to a position, as lines or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ottla.errors import ErrorCode, config_error, error_from_code
from ottla_cli import format as verbs
from ottla_cli import offsets as position_syntax
from ottla_cli.connection import open_admin, with_timeout
from ottla_cli.documentation import table_of
from ottla_cli.extents import Extent, check_reached, look_up
from ottla_cli.format import as_json, compile_format
from ottla_cli.lazy import Command
from ottla_cli.offsets import Anchor, PositionSpec, parse_position
from ottla_cli.options import Topic
from ottla_cli.output import Listing, form_for, write_json
from ottla_cli.settings import Settings
from ottla_cli.terminal import say

if TYPE_CHECKING:
    from ottla.consumer.consumer import Consumer
    from ottla.record import Record

    ConsumedRecords = list[Record[bytes, bytes | None]]

_END: Final = PositionSpec(Anchor.END)
_POLL_RECORDS: Final = 1000
_FORMS: Final = {"table": r"%p@%o %k %v\n", "jsonl": "json", "name": r"%t-%p@%o\n"}


Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Read as a member of this group until Ctrl-C, or until -n records have been read. Begin at the committed "
        "offsets, or at --from (start or end) in partitions that have none, and commit the printed records.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=r"json, or a template such as '%t[%p]@%o %k %v\n'; default if the output is not a terminal: '%v\n'.",
    ),
]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    cls=Command, epilog=f"\b\nPLACE\n{table_of(position_syntax.__doc__)}\n\n\b\nFORMAT\n{table_of(verbs.__doc__)}"
)
def consume(
    ctx: typer.Context,
    topic: Topic,
    begin: Annotated[str, typer.Option("--from", metavar="PLACE", help="Where to begin in each partition.")] = "start",
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="Where to end; default: the current end, unless -F is given."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for new records, until Ctrl-C.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="At most this many records.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", help="Only this partition; may be repeated.")
    ] = None,
    group: Group = None,
    template: Template = None,
) -> None:
    """Read the records of a topic, in order within each partition.

    \b
      ottla consume orders -n 10
      ottla consume orders --from @-1h -f json | jq .value
      ottla consume orders --from end -F
      ottla consume orders --group billing
    """
    settings = Settings.of(ctx)
    now_ms = time.time_ns() // 1_000_000
    if follow and end is not None:
        raise config_error("-F and --to can't be combined", hint="use only one of them")
    first = parse_position(begin, "--from", now_ms=now_ms)
    last = _END if end is None else parse_position(end, "--to", now_ms=now_ms)
    write = _writer(template, settings)
    if group is not None:
        _check_member(group, first, end, partition)
        with _open_member(settings, topic, group, first) as member:
            write(read(member, topic, None, count, settings.timeout))
        return
    with open_admin(settings, strict=False) as admin:
        extents = look_up(admin, topic, (first, last), partition or [])
    if follow:
        check_reached("--from", topic, first, extents)
    else:
        extents = {number: extent for number, extent in extents.items() if extent.offsets[0] < extent.offsets[1]}
    if not extents:
        say("there is nothing to read; -F waits for new records")
        write(iter(()))
        return
    stops = None if follow else {number: extent.offsets[1] for number, extent in extents.items()}
    only = list(extents) if partition or not follow else None
    with _open_consumer(settings, topic, only, extents, bounded=not follow) as consumer:
        write(read(consumer, topic, stops, count, settings.timeout))


def read(
    consumer: Consumer[bytes, bytes | None],
    topic: str,
    stops: Mapping[int, int] | None,
    count: int | None,
    timeout: float,
) -> Iterator[ConsumedRecords]:
    """Yield records, at most `count`, up to the offset of `stops` in each partition; without end if that is None.

    It ends earlier, with a message, before an open transaction. Raises TimeoutError if nothing came for `timeout`
    seconds although there are records left to read.
    """
    left = dict(stops or {})
    while count is None or count > 0:
        batch = consumer.poll(timeout, max_records=min(_POLL_RECORDS, count or _POLL_RECORDS))
        for number in [n for n, stop in left.items() if consumer.position((topic, n)) >= stop]:
            consumer.pause((topic, number))
            del left[number]
        if not batch and left and consumer.finished:
            say(
                f"the records from here to the end of {topic} belong to open transactions, or lie behind them: "
                f"`ottla txn explain {topic}` names the transactions"
            )
            return
        if not batch and left:
            raise _nothing_came(consumer, topic, left, timeout)
        rows = [record for record in batch if stops is None or record.offset < stops[record.partition]]
        if count is not None:
            count -= len(rows)
        yield rows
        if stops is not None and not left:
            return


def _writer(template: str | None, settings: Settings) -> Callable[[Iterator[ConsumedRecords]], None]:
    """Return what writes records as -f or -o say, each batch as soon as it is there."""
    form = form_for(settings.output, sys.stdout)
    if template is None and settings.output == "json":
        return lambda batches: write_json(Listing("records/v1", (as_json(r) for rows in batches for r in rows)))
    if template is None:
        template = _FORMS[form] if settings.output or form == "table" else r"%v\n"
    to_line = compile_format(template, for_terminal=sys.stdout.isatty())

    def write_lines(batches: Iterator[ConsumedRecords]) -> None:
        for rows in batches:
            sys.stdout.buffer.write(b"".join(map(to_line, rows)))
            sys.stdout.buffer.flush()

    return write_lines


def _open_consumer(
    settings: Settings, topic: str, partitions: list[int] | None, extents: Mapping[int, Extent], *, bounded: bool
) -> Consumer[bytes, bytes | None]:
    from ottla.consumer.consumer import Consumer
    from ottla_core.model import TopicPartition

    return Consumer(
        topic,
        bootstrap=settings.bootstrap,
        partitions=partitions,
        start={TopicPartition(topic, number): extent.offsets[0] for number, extent in extents.items()},
        stop="end" if bounded else None,
        key="bytes",
        value="bytes",
        auto_offset_reset="earliest",  # records that retention deletes meanwhile are gone: continue after them
        config=with_timeout(settings.config, settings.timeout, "request.timeout.ms"),
    )


def _open_member(settings: Settings, topic: str, group: str, first: PositionSpec) -> Consumer[bytes, bytes | None]:
    from ottla.consumer.consumer import Consumer

    return Consumer(
        topic,
        bootstrap=settings.bootstrap,
        group=group,
        auto_offset_reset="earliest" if first.anchor is Anchor.START else "latest",
        key="bytes",
        value="bytes",
        config=with_timeout(settings.config, settings.timeout, "request.timeout.ms"),
    )


def _check_member(group: str, first: PositionSpec, end: str | None, partitions: list[int] | None) -> None:
    """Raise ConfigError for options of what the group decides: what a member reads, and from where."""
    if end is not None or partitions:
        raise config_error(
            "--group can't be combined with --to or -p",
            hint="the group assigns the partitions; to stop after N records, use -n",
        )
    if first.anchor not in (Anchor.START, Anchor.END) or first.number:
        raise config_error(
            "with --group, --from must be start or end, and only applies to partitions without a committed offset",
            hint=f"`ottla group reset {group}` moves the group's offsets while the group has no members",
        )


def _nothing_came(
    consumer: Consumer[bytes, bytes | None], topic: str, left: Mapping[int, int], timeout: float
) -> Exception:
    missing = ", ".join(f"{topic}-{n} from {consumer.position((topic, n))} to {stop}" for n, stop in left.items())
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"no record arrived for {timeout:g} s; still missing: {missing}",
        hint=f"check the leaders with `ottla topic show {topic}`, or set a longer --timeout",
    )
