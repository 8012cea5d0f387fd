"""`ottla bench`: how fast this client and a cluster are, in the form of the tools that people compare with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from ottla.client.settings import CONSUMER_NAMES, PRODUCER_NAMES
from ottla.client.units import parse_duration, size_bytes
from ottla.errors import ErrorCode, OttlaError, config_error, error_from_code
from ottla_cli.commands.produce import MAX_LINE_BYTES, Codec, parse_rate
from ottla_cli.connection import open_admin, with_timeout
from ottla_cli.failures import ExitCode, sentence
from ottla_cli.lazy import Command
from ottla_cli.options import Topic
from ottla_cli.output import Listing, write
from ottla_cli.settings import Settings
from ottla_cli.terminal import put, say
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.bench.acknowledgements import Acknowledgements
    from ottla.bench.measurement import Measurement
    from ottla.consumer.consumer import Consumer
    from ottla.producer.producer import Producer

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Measure the throughput and latency of this client and the cluster.",
)

Acks = Literal["all", "1", "0"]
Records = Annotated[int, typer.Option("--records", "-n", min=1, metavar="N", help="At most this many records.")]
Size = Annotated[str, typer.Option("--size", metavar="BYTES", help="Size of each value, such as 100 or 4KiB.")]
For = Annotated[str, typer.Option("--for", metavar="DURATION", help="Stop after this time.")]

_WINDOW_S: Final = 5.0
_LATE_S: Final = 0.5
_FOR: Final = "60s"


@app.callback()
def bench() -> None:
    """Measure the throughput and latency of this client and the cluster.

    By default, it prints the same lines as Kafka's performance tools. -o jsonl writes a result in the format of the
    OpenMessaging Benchmark instead, and -o json writes the same result as an item.
    """


@app.command("produce", cls=Command)
def produce(
    ctx: typer.Context,
    topic: Topic,
    records: Records = 1_000_000,
    size: Size = "100",
    rate: Annotated[
        str | None, typer.Option(metavar="N/s", help="Records to send per second; default: as fast as possible.")
    ] = None,
    acks: Annotated[
        Acks, typer.Option(help="Replicas that must acknowledge a record: all in-sync ones, the leader or none.")
    ] = "all",
    compression: Annotated[Codec | None, typer.Option("-z", "--compression", help="Compression codec.")] = None,
    distinct_keys: Annotated[
        int, typer.Option("--keys", min=0, metavar="N", help="Number of distinct keys; 0 sends records without keys.")
    ] = 0,
    limit: For = _FOR,
) -> None:
    """Send records. Latency is the time from `send` to the acknowledgement.

    \b
      ottla bench produce orders
      ottla bench produce orders -n 100000 --size 1KiB --rate 20000/s -z zstd
    """
    from ottla.bench import kafka_lines, throughput

    settings = Settings.of(ctx)
    value_bytes, bounds = _value_bytes(size), throughput.RunBounds(records, parse_duration(limit, "--for"))
    target_rate = parse_rate(rate) if rate else None
    partitions, _ = _look(settings, topic)
    with _open_producer(settings, topic, acks, compression=compression) as producer:
        producer.partitions_for()  # so that its metadata are known before the clock starts
        measured = _measurement(settings)
        acknowledged = throughput.produce(
            producer,
            measured,
            bounds,
            lambda window: _print_lines(settings, [kafka_lines.sent_window(window)]),
            size_bytes=value_bytes,
            distinct_keys=distinct_keys,
            rate=target_rate,
        )
    _print_lines(settings, [kafka_lines.sent_total(measured.total)])
    _write_result(settings, measured, f"produce {topic}", value_bytes, partitions, producers=1)
    if measured.total.delay.percentile(50) > _LATE_S * 1e6:
        say(f"half of the records were sent more than {_LATE_S:g} s late: this client can't keep up with {rate}")
    _check_delivered(acknowledged, measured)


@app.command("consume", cls=Command)
def consume(
    ctx: typer.Context,
    topic: Topic,
    records: Annotated[
        int | None,
        typer.Option(
            "--records", "-n", min=1, metavar="N", help="At most this many records; default: all existing records."
        ),
    ] = None,
    detailed: Annotated[bool, typer.Option("--detailed", help="Also print a line every 5 seconds.")] = False,
    limit: For = _FOR,
) -> None:
    """Read a topic from its beginning to its current end.

    \b
      ottla bench consume orders -n 1000000
    """
    from ottla.bench import kafka_lines, throughput

    settings = Settings.of(ctx)
    partitions, existing = _look(settings, topic)
    bounds = throughput.RunBounds(records or max(1, existing), parse_duration(limit, "--for"))
    if detailed:
        _print_lines(settings, [kafka_lines.CONSUMED_WINDOW_HEADER])
    ahead_s = time.time() - time.monotonic()

    def wall(monotonic_at: float) -> datetime:
        return datetime.fromtimestamp(monotonic_at + ahead_s).astimezone()

    measured = _measurement(settings)
    with _open_consumer(settings, topic, start="earliest", stop="end") as consumer:
        throughput.consume(
            consumer,
            measured,
            bounds,
            lambda window: _print_lines(
                settings, [kafka_lines.consumed_window(window, measured.total, wall)] if detailed else []
            ),
            existing=existing,
        )
    lines = [kafka_lines.CONSUMED_HEADER, kafka_lines.consumed_total(measured.total, wall)]
    _print_lines(settings, lines)
    _write_result(settings, measured, f"consume {topic}", 0, partitions, consumers=1)
    if records and measured.total.received < records:
        say(f"{topic} returned {counted(measured.total.received, 'record')} of the {records:,} requested")


@app.command("e2e", cls=Command)
def end_to_end(
    ctx: typer.Context,
    topic: Topic,
    records: Records = 1_000,
    size: Size = "100",
    rate: Annotated[str, typer.Option(metavar="N/s", help="Records to send per second.")] = "100/s",
    acks: Annotated[
        Acks, typer.Option(help="Replicas that must acknowledge a record: all in-sync ones, the leader or none.")
    ] = "all",
    limit: For = _FOR,
) -> None:
    """Send records on a schedule and read them back. Latency is the time from when a record is due until it is read.

    \b
      ottla bench e2e orders -n 10000 --rate 1000/s
    """
    from ottla.bench import kafka_lines, throughput
    from ottla.bench.end_to_end import EndToEnd

    settings = Settings.of(ctx)
    value_bytes, bounds = _value_bytes(size), throughput.RunBounds(records, parse_duration(limit, "--for"))
    target_rate = parse_rate(rate)
    partitions, _ = _look(settings, topic)

    def on_record(number: int, latency_us: int) -> None:
        if number % 1000 == 0:
            _print_lines(settings, [kafka_lines.end_to_end_progress(number, latency_us)])

    with (
        _open_producer(settings, topic, acks, linger=0.0) as producer,
        _open_consumer(settings, topic, start="latest") as consumer,
    ):
        producer.partitions_for()
        measured = _measurement(settings)
        run = EndToEnd(producer, consumer, measured, bounds, size_bytes=value_bytes, rate=target_rate)
        missing = run.run(on_record, patience_s=settings.timeout)
    _print_lines(settings, kafka_lines.end_to_end_total(measured.total))
    _write_result(settings, measured, f"e2e {topic}", value_bytes, partitions, producers=1, consumers=1)
    _check_delivered(run.acknowledged, measured)
    if missing:
        raise error_from_code(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{counted(missing, 'record')} did not arrive within {settings.timeout:g} s",
            hint=f"check the leaders with `ottla topic show {topic}`, or set a longer --timeout",
        )


def _value_bytes(text: str) -> int:
    size = size_bytes(text, "--size")
    if size > MAX_LINE_BYTES:
        raise config_error(
            f"--size {text} is larger than any broker accepts", hint=f"use at most {MAX_LINE_BYTES >> 20}MiB"
        )
    return size


def _look(settings: Settings, topic: str) -> tuple[int, int]:
    """Return how many partitions the topic has, and how many records. Raises UnknownTopicError."""
    from ottla_cli.extents import look_up

    with open_admin(settings, strict=False) as admin:
        extents = look_up(admin, topic)
    return len(extents), sum(extent.records for extent in extents.values())


def _open_producer(settings: Settings, topic: str, acks: Acks, **arguments: Any) -> Producer[bytes, bytes]:
    from ottla.producer.producer import Producer

    return Producer(
        settings.bootstrap,
        topic=topic,
        key="bytes",
        value="bytes",
        acks="all" if acks == "all" else 1 if acks == "1" else 0,
        config=_config(settings, not_of=CONSUMER_NAMES, of=PRODUCER_NAMES),
        **arguments,
    )


def _open_consumer(settings: Settings, topic: str, **arguments: Any) -> Consumer[bytes, bytes]:
    from ottla.consumer.consumer import Consumer

    return Consumer(
        topic,
        bootstrap=settings.bootstrap,
        key="bytes",
        value="bytes",
        config=_config(settings, not_of=PRODUCER_NAMES, of=CONSUMER_NAMES),
        **arguments,
    )


def _config(settings: Settings, *, of: Mapping[str, Any], not_of: Mapping[str, Any]) -> dict[str, Any]:
    """-X without what is meant for the other client alone; an unknown name stays in, to be rejected."""
    mine = {name: text for name, text in settings.config.items() if name in of or name not in not_of}
    return with_timeout(mine, settings.timeout, "request.timeout.ms")


def _measurement(settings: Settings) -> Measurement:
    from ottla.bench.measurement import Measurement
    from ottla.bench.openmessaging import WINDOW_S

    return Measurement(time.monotonic(), WINDOW_S if _is_json(settings) else _WINDOW_S)


def _is_json(settings: Settings) -> bool:
    return settings.output in ("json", "jsonl")


def _print_lines(settings: Settings, lines: list[str]) -> None:
    if not _is_json(settings):
        for line in lines:
            put(line, flush=True)


def _write_result(
    settings: Settings,
    measured: Measurement,
    name: str,
    value_bytes: int,
    partitions: int,
    *,
    producers: int = 0,
    consumers: int = 0,
) -> None:
    from ottla.bench.openmessaging import Workload, result

    if _is_json(settings):
        workload = Workload(name, value_bytes, partitions, producers, consumers)
        write(Listing("bench/v1", [result(workload, measured)]), settings.output)


def _check_delivered(acknowledged: Acknowledgements, measured: Measurement) -> None:
    """Records that were not delivered are reported, and count in the exit code."""
    error: OttlaError | None = acknowledged.first_error
    if error is None:
        return
    say(f"ottla: {counted(acknowledged.failed, 'record')} not delivered: {sentence(error)}")
    raise typer.Exit(ExitCode.PARTIAL if measured.total.sent else ExitCode.FAILED)
