"""`ottla produce`: a line is a record."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

import typer

from ottla.errors import DeliveryError, ErrorCode, OttlaError, RecordTooLargeError, SerializationError, config_error
from ottla.serdes.serdes import AUTO_VALUE
from ottla_cli.connection import open_admin, with_timeout
from ottla_cli.failures import ExitCode, no_partition, sentence
from ottla_cli.lazy import Command
from ottla_cli.options import Topic
from ottla_cli.output import Listing, write
from ottla_cli.settings import Settings, headers
from ottla_cli.terminal import say
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.producer.producer import Producer

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Line = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
_LINGER_S: Final = 1.0
_SAY_S: Final = 2.0
_LOOK: Final = 100
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_SECONDS: Final = {None: 1, "s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a line becomes a record: the key is fixed, or before the delimiter; `tombstone` makes empty values null."""

    key: bytes | None = None
    delimiter: bytes | None = None
    tombstone: bool = False

    def read(self, line: bytes) -> Line:
        """A line without the delimiter has no key."""
        key, value = self.key, line
        if self.delimiter is not None:
            before, found, after = line.partition(self.delimiter)
            if found:
                key, value = before, after
        return key, None if self.tombstone and not value else value


@dataclass(slots=True)
class Sent:
    """How much was sent."""

    records: int = 0
    size_bytes: int = 0
    failed: int = 0
    error: OttlaError | None = None


class ProduceProgress:
    """Prints every few seconds how many records were sent so far, if standard error is a terminal."""

    def __init__(self) -> None:
        self._say_at = time.monotonic() + _SAY_S if sys.stderr.isatty() else math.inf

    def look(self, records: int) -> None:
        if time.monotonic() >= self._say_at:
            say(f"{counted(records, 'record')} so far")
            self._say_at = time.monotonic() + _SAY_S


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines without their end. Raises RecordTooLargeError for one that no broker would take."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise RecordTooLargeError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a line is longer than {MAX_LINE_BYTES >> 20} MiB",
                hint="each line is one record: check the line endings",
            )
        yield line.removesuffix(b"\n")


def parse_rate(text: str) -> float:
    """Return the records per second of "1000", "1000/s", "90/m" or "10/h". Raises ConfigError."""
    match = _RATE.fullmatch(text)
    rate = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not rate:
        raise config_error(
            f"--rate {text!r} is not a rate",
            hint="pass records per second, minute or hour, such as 1000/s, 90/m or 10/h",
        )
    return rate


def paced(rows: Iterator[Line], rate: float) -> Iterator[Line]:
    """Yield `rows`, the n-th not before n / rate seconds have passed."""
    begun_at = time.monotonic()
    for number, row in enumerate(rows):
        wait_s = begun_at + number / rate - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        yield row


def checked_as_json(rows: Iterator[Line]) -> Iterator[Line]:
    """Return the rows. Raises SerializationError for the first value that is not JSON."""
    for number, (key, value) in enumerate(rows, 1):
        try:
            if value is not None:
                json.loads(value)
        except ValueError as error:
            raise SerializationError(
                f"line {number} is not JSON: {error}",
                hint="correct the line, or omit --json; all earlier lines were sent",
            ) from None
        yield key, value


@app.command(cls=Command)
def produce(
    ctx: typer.Context,
    topic: Topic,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="File with one record per line; default: -, standard input.")
    ] = "",
    key: Annotated[str | None, typer.Option("-k", "--key", metavar="KEY", help="The key of every record.")] = None,
    delimiter: Annotated[
        str | None, typer.Option("-K", metavar="DELIM", help="The delimiter between the key and the value in a line.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header for every record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("-p", "--partition", metavar="N", help="Write to this partition; default: chosen by the key."),
    ] = None,
    compression: Annotated[Codec | None, typer.Option("-z", "--compression", help="Compression codec.")] = None,
    acks: Annotated[
        Literal["all", "1", "0"],
        typer.Option(help="Replicas that must acknowledge a record: all in-sync ones, the leader or none."),
    ] = "all",
    tombstone: Annotated[
        bool,
        typer.Option(
            "--tombstone",
            help="Write empty values as null. With -k and without FILE, write one null value for that key.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Check that values are JSON; the SDK's consumers return them as dicts and lists, not strings.",
        ),
    ] = False,
    rate: Annotated[
        str | None, typer.Option(metavar="N/s", help="Maximum rate of records, such as 1000/s or 90/m.")
    ] = None,
) -> None:
    """Write the lines of a file, or of standard input, to a topic.

    \b
      ottla produce orders rows.jsonl -z zstd
      echo 'eu:{"total": 9.5}' | ottla produce orders -K :
      echo '{"total": 9.5}' | ottla produce orders --json
      ottla produce orders -k eu --tombstone
    """
    settings = Settings.of(ctx)
    shape = Shape(_bytes(key), _bytes(delimiter), tombstone)
    if key is not None and delimiter is not None:
        raise config_error("-k and -K can't be combined", hint="use -k for one key, or -K if each line has a key")
    if delimiter == "":
        raise config_error("-K is empty", hint="pass the delimiter between key and value, such as -K :")
    pace = parse_rate(rate) if rate else None
    pairs = headers(header or [])
    if as_json:
        pairs.append((AUTO_VALUE, b"json"))
    _check_exists(settings, topic, partition)
    with ExitStack() as stack:
        if tombstone and key is not None and not file:
            rows: Iterator[Line] = iter([(shape.key, None)])
        else:
            rows = map(shape.read, lines(_open(file or "-", stack)))
            rows = checked_as_json(rows) if as_json else rows
        producer = _open_producer(settings, topic, compression, acks)
        sent = send(producer, paced(rows, pace) if pace else rows, pairs, partition)
    _report(topic, sent, settings)


def send(
    producer: Producer[bytes, bytes], rows: Iterator[Line], headers: list[tuple[str, bytes]], partition: int | None
) -> Sent:
    """Send `rows` until they end or a record is rejected; then wait for the outcome of all."""
    sent, progress = Sent(), ProduceProgress()
    try:
        with producer:
            try:
                for key, value in rows:
                    producer.send(value, key=key, headers=headers or None, partition=partition)
                    sent.records += 1
                    sent.size_bytes += len(key or b"") + len(value or b"")
                    if not sent.records % _LOOK:
                        progress.look(sent.records)
            except OttlaError as error:
                sent.error = error
    except DeliveryError as error:
        sent.failed = error.failed
        sent.error = sent.error or error
    return sent


def _check_exists(settings: Settings, topic: str, partition: int | None) -> None:
    """Fail for a wrong name before anything is typed. Raises UnknownTopicError, NotFoundError."""
    with open_admin(settings, strict=False) as admin:
        (described,) = admin.topics.describe(topic)
    if partition is not None and not 0 <= partition < len(described.partitions):
        raise no_partition(topic, partition, len(described.partitions))


def _open_producer(
    settings: Settings, topic: str, compression: Codec | None, acks: Literal["all", "1", "0"]
) -> Producer[bytes, bytes]:
    from ottla.producer.producer import Producer

    config = with_timeout(settings.config, settings.timeout, "request.timeout.ms", "max.block.ms")
    return Producer(
        settings.bootstrap,
        topic=topic,
        key="bytes",
        value="bytes",
        compression=compression,
        acks="all" if acks == "all" else 1 if acks == "1" else 0,
        # The time starts with `send`, so the wait for the batch to fill comes on top.
        config=with_timeout(config, settings.timeout + _LINGER_S, "delivery.timeout.ms"),
    )


def _open(file: str, stack: ExitStack) -> IO[bytes]:
    if file != "-":
        return stack.enter_context(Path(file).open("rb"))
    if sys.stdin.isatty():
        say("one record per line; Ctrl-D ends")
    return sys.stdin.buffer


def _report(topic: str, sent: Sent, settings: Settings) -> None:
    delivered = sent.records - sent.failed
    if settings.output in ("json", "jsonl"):
        item = {"name": topic, "records": delivered, "bytes": sent.size_bytes, "failed": sent.failed}
        write(Listing("produced/v1", [item]), settings.output)
    if sent.error is None:
        say(f"{counted(delivered, 'record')} to {topic}")
        return
    if not delivered:
        raise sent.error
    say(f"ottla: {counted(delivered, 'record')} in {topic}, then: {sentence(sent.error)}")
    raise typer.Exit(ExitCode.PARTIAL)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
