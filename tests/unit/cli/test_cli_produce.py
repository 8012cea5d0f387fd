"""`ottla produce`: how lines become records, and what is told when some of them fail."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import FakeAdmin, Log

from ottla.errors import (
    ConfigError,
    DeliveryError,
    ErrorCode,
    OttlaError,
    RecordTooLargeError,
    error_from_code,
)
from ottla.producer import producer as producer_module
from ottla.serdes.serdes import AUTO_VALUE
from ottla_cli.commands import produce
from ottla_cli.commands.produce import MAX_LINE_BYTES, Shape, lines, paced, parse_rate
from ottla_cli.failures import ExitCode
from ottla_cli.main import run


class FakeProducer:
    """Keeps what it is given; `refuses` is raised at that record, `loses` is how many fail in the end."""

    made: list[FakeProducer] = []
    refuses: tuple[int, OttlaError] | None = None
    loses = 0

    def __init__(self, bootstrap: str | None, **settings: Any) -> None:
        self.settings = settings
        self.sent: list[tuple[bytes | None, bytes | None, Any, int | None]] = []
        FakeProducer.made.append(self)

    def send(self, value: bytes | None, *, key: bytes | None, headers: Any, partition: int | None) -> None:
        if self.refuses and len(self.sent) == self.refuses[0]:
            raise self.refuses[1]
        self.sent.append((key, value, headers, partition))

    def __enter__(self) -> FakeProducer:
        return self

    def __exit__(self, *error: object) -> None:
        if self.loses and error[0] is None:
            raise DeliveryError(ErrorCode.REQUEST_TIMED_OUT, f"{self.loses} records lost", failed=self.loses)


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "Producer", FakeProducer)
    monkeypatch.setattr(produce, "open_admin", lambda settings, strict: FakeAdmin(orders=[Log()] * 3))
    monkeypatch.setattr(FakeProducer, "made", [])


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text), isatty=lambda: False))


def test_a_line_is_a_value_and_what_stands_before_the_delimiter_its_key() -> None:
    assert Shape().read(b"a:b") == (None, b"a:b")
    assert Shape(key=b"k").read(b"a:b") == (b"k", b"a:b")
    colon = Shape(delimiter=b":")
    assert [colon.read(line) for line in (b"a:b:c", b"abc", b":c", b"a:")] == [
        (b"a", b"b:c"),
        (None, b"abc"),
        (b"", b"c"),
        (b"a", b""),
    ]
    assert Shape(delimiter=b":", tombstone=True).read(b"a:") == (b"a", None)
    assert Shape(tombstone=True).read(b"x") == (None, b"x")


def test_lines_end_at_newlines_only_and_the_last_needs_none() -> None:
    assert list(lines(io.BytesIO(b"a\r\n\n\x00\xff\nlast"))) == [b"a\r", b"", b"\x00\xff", b"last"]
    assert list(lines(io.BytesIO(b""))) == []


def test_a_file_without_lines_does_not_fill_the_memory() -> None:
    reading = lines(io.BytesIO(b"short\n" + b"x" * (MAX_LINE_BYTES + 1)))
    assert next(reading) == b"short"
    with pytest.raises(RecordTooLargeError, match="longer than 16 MiB"):
        next(reading)


def test_a_rate_is_records_a_second_unless_it_says_otherwise() -> None:
    assert [parse_rate(text) for text in ("1000", "1000/s", "90/m", "36/h", "0.5")] == [1000, 1000, 1.5, 0.01, 0.5]
    for text in ("", "fast", "0", "-1", "10/d", "10/"):
        with pytest.raises(ConfigError):
            parse_rate(text)


def test_records_are_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = [100.0], []

    def sleep(wait_s: float) -> None:
        waits.append(round(wait_s, 6))
        now[0] += wait_s

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    rows = paced(iter([(None, b"x")] * 5), 4.0)
    next(rows)
    next(rows)
    now[0] += 0.5  # somebody was slow: what was missed is caught up with
    assert len(list(rows)) == 3
    assert waits == [0.25, 0.25]


def test_the_options_reach_the_producer_and_every_record(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"a=1\nb=2\n")
    arguments = [
        "-K",
        "=",
        "-H",
        "source=cli",
        "-H",
        "empty=",
        "-p",
        "2",
        "-z",
        "zstd",
        "--acks",
        "1",
        "--timeout",
        "3s",
        "-X",
        "linger.ms=20",
    ]
    assert run(["produce", "orders", *arguments]) == 0
    (made,) = FakeProducer.made
    headers = [("source", b"cli"), ("empty", b"")]
    assert made.sent == [(b"a", b"1", headers, 2), (b"b", b"2", headers, 2)]
    assert (made.settings["topic"], made.settings["compression"], made.settings["acks"]) == ("orders", "zstd", 1)
    assert made.settings["config"]["linger.ms"] == "20"
    assert made.settings["config"]["request.timeout.ms"] == 3000
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "2 records to orders\n")


def test_json_comes_back_as_what_the_sdk_would_have_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b'{"id": 1}\n[2]\n{"id": \n3')
    assert run(["produce", "orders", "--json"]) == ExitCode.PARTIAL
    (made,) = FakeProducer.made
    assert made.sent == [(None, text, [(AUTO_VALUE, b"json")], None) for text in (b'{"id": 1}', b"[2]")]
    assert "line 3 is not JSON" in capsys.readouterr().err


def test_a_file_is_read_and_the_outcome_is_data_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows").write_bytes(b"one\ntwo")
    assert run(["produce", "orders", str(tmp_path / "rows"), "-k", "eu", "-o", "json"]) == 0
    assert [(key, value) for key, value, *_ in FakeProducer.made[0].sent] == [(b"eu", b"one"), (b"eu", b"two")]
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "kind": "produced/v1",
        "items": [{"name": "orders", "records": 2, "bytes": 10, "failed": 0}],
    }


def test_a_tombstone_for_a_key_needs_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"never read\n")
    assert run(["produce", "orders", "-k", "eu", "--tombstone"]) == 0
    assert FakeProducer.made[0].sent == [(b"eu", None, None, None)]


def test_what_is_left_after_a_refused_record_is_told_as_partial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"1\n2\n3\n")
    refusal = error_from_code(ErrorCode.MESSAGE_TOO_LARGE, "too large", hint="send less")
    monkeypatch.setattr(FakeProducer, "refuses", (2, refusal))
    assert run(["produce", "orders"]) == 3
    assert capsys.readouterr().err == ("ottla: 2 records in orders, then: too large (MESSAGE_TOO_LARGE); send less\n")
    monkeypatch.setattr(FakeProducer, "refuses", (0, refusal))
    type_in(monkeypatch, b"1\n")
    assert run(["produce", "orders"]) == 1


def test_records_that_were_lost_on_the_way_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, b"1\n2\n3\n")
    monkeypatch.setattr(FakeProducer, "loses", 2)
    assert run(["produce", "orders"]) == 3
    assert "1 record in orders, then: 2 records lost" in capsys.readouterr().err
    type_in(monkeypatch, b"1\n2\n")
    assert run(["produce", "orders"]) == 124


@pytest.mark.parametrize(
    "arguments",
    [["-k", "a", "-K", ":"], ["-K", ""], ["--rate", "fast"], ["-H", "nameless"], ["-z", "rar"], ["--acks", "2"]],
)
def test_options_that_can_not_be_are_usage_errors(arguments: list[str]) -> None:
    assert run(["produce", "orders", *arguments]) == 2
    assert FakeProducer.made == []


@pytest.mark.parametrize("arguments", [["order"], ["orders", "-p", "3"], ["orders", "-p", "-1"]])
def test_a_topic_or_partition_that_is_not_there_is_told_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["produce", *arguments]) == 4
    assert FakeProducer.made == []
    assert ("did you mean orders?" if arguments == ["order"] else "0 to 2") in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["produce", "orders", "nowhere.txt"]) == 1
    assert capsys.readouterr().err == "ottla: nowhere.txt: No such file or directory\n"
