"""`ottla consume`, over a fake Admin and Consumer: from where to where, and how it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import FakeAdmin, FakeConsumer, Log, row

from ottla.consumer import consumer as consumer_module
from ottla.errors import TimeoutError as OutOfTimeError
from ottla_cli.commands import consume
from ottla_cli.commands.consume import read
from ottla_cli.main import run

Told = Callable[..., tuple[SimpleNamespace, FakeConsumer]]


def test_reading_ends_where_it_shall_in_each_partition() -> None:
    fake = FakeConsumer([[row(0, 0), row(1, 7)], [row(0, 1), row(0, 2)], [row(1, 8), row(1, 9)]], {0: 0, 1: 7})
    rows = [(r.partition, r.offset) for batch in read(fake, "orders", {0: 2, 1: 9}, None, 5.0) for r in batch]  # type: ignore[arg-type]  # a stand-in
    assert rows == [(0, 0), (1, 7), (0, 1), (1, 8)]
    assert fake.paused == [0, 1], "a partition that is done is not fetched any more"
    assert fake.asked[0] == (5.0, 1000)


def test_reading_ends_after_so_many_records() -> None:
    fake = FakeConsumer([[row(0, n) for n in range(3)], [row(0, n) for n in range(3, 10)]], {0: 0})
    rows = [r.offset for batch in read(fake, "orders", None, 5, 1.0) for r in batch]  # type: ignore[arg-type]  # a stand-in
    assert rows == [0, 1, 2, 3, 4]
    assert [most for _, most in fake.asked] == [5, 2]


def test_following_waits_and_a_bounded_reading_does_not_wait_for_ever() -> None:
    quiet = FakeConsumer([[], [], [row(0, 0)]], {0: 0})
    batches = read(quiet, "orders", None, None, 1.0)  # type: ignore[arg-type]  # a stand-in
    assert [len(next(batches)) for _ in range(3)] == [0, 0, 1]
    stuck = FakeConsumer([[row(0, 0)]], {0: 0, 1: 4})
    with pytest.raises(
        OutOfTimeError, match=r"no record arrived for 1 s; still missing: orders-0 from 1 to 3, orders-1 from 4 to 6"
    ):
        list(read(stuck, "orders", {0: 3, 1: 6}, None, 1.0))  # type: ignore[arg-type]  # a stand-in


@pytest.mark.story("consume-before-an-open-transaction")
def test_reading_ends_before_an_open_transaction_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeConsumer([[row(0, 0)]], {0: 0})
    fake.finished = True
    assert [len(batch) for batch in read(fake, "orders", {0: 4}, None, 1.0)] == [1]  # type: ignore[arg-type]  # a stand-in
    assert "open transactions" in capsys.readouterr().err


def test_offsets_without_records_at_the_end_are_no_reason_to_wait() -> None:
    fake = FakeConsumer([[row(0, 0)]], {0: 0})
    fake.polls.append(lambda: fake.positions.update({0: 2}))  # a control record: nothing to hand out
    assert [len(batch) for batch in read(fake, "orders", {0: 2}, None, 1.0)] == [1, 0]  # type: ignore[arg-type]  # a stand-in


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Runs `ottla consume orders …` over three partitions; gives what the Consumer was made with, and it."""
    times = tuple(1_793_527_200_000 + n * 1000 for n in range(5))
    admin = FakeAdmin(orders=[Log(0, times), Log(10, times[:2]), Log()])

    def tell(*arguments: str, code: int = 0) -> tuple[SimpleNamespace, FakeConsumer]:
        made = SimpleNamespace(settings=None)
        fake = FakeConsumer([[row(0, n, b"v%d" % n, b"k") for n in range(5)], [row(1, 10), row(1, 11, None)]], {})

        def make(*topics: str, start: Mapping[Any, int], **settings: Any) -> FakeConsumer:
            made.settings = {"topics": topics, "start": {p.partition: at for p, at in start.items()}, **settings}
            fake.positions = {p.partition: at for p, at in start.items()}
            return fake

        monkeypatch.setattr(consume, "open_admin", lambda settings, strict: admin)
        monkeypatch.setattr(consumer_module, "Consumer", make)
        assert run(["consume", "orders", *arguments]) == code
        return made, fake

    return tell


def test_everything_that_is_there_is_read_and_partitions_without_any_are_not_asked(
    told: Told, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    made, _ = told("-X", "fetch.min.bytes=10", "--timeout", "3s")
    assert made.settings["start"] == {0: 0, 1: 10}
    assert (made.settings["partitions"], made.settings["stop"]) == ([0, 1], "end")
    assert made.settings["config"] == {"request.timeout.ms": 3000, "fetch.min.bytes": "10"}
    assert capsysbinary.readouterr().out == b"v0\nv1\nv2\nv3\nv4\nv\n\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-f", r"%p:%o:%k=%v\n"], b"0:0:k=v0\n0:1:k=v1\n"),
        (["-o", "table"], b"0@0 k v0\n0@1 k v1\n"),
        (["-o", "name"], b"orders-0@0\norders-0@1\n"),
    ],
)
def test_records_are_written_as_asked(
    told: Told, capsysbinary: pytest.CaptureFixture[bytes], arguments: list[str], expected: bytes
) -> None:
    told("-n", "2", *arguments)
    assert capsysbinary.readouterr().out == expected


def test_json_is_one_object_or_one_a_line(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    told("-o", "json")
    whole = json.loads(capsys.readouterr().out)
    assert (whole["kind"], len(whole["items"])) == ("records/v1", 7)
    told("-o", "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == whole["items"]
    assert whole["items"][-1]["value"] is None


def test_places_become_offsets(told: Told) -> None:
    made, _ = told("--from", "-1", "-n", "1")
    assert made.settings["start"] == {0: 4, 1: 11}
    made, _ = told("--from", "@1793527203000", "-n", "1")
    assert made.settings["start"] == {0: 3}, "partition 1 has nothing so young"
    made, _ = told("--from", "end", "-F", "-n", "1")
    assert made.settings["start"] == {0: 5, 1: 12, 2: 0}
    assert (made.settings["partitions"], made.settings["stop"]) == (None, None), "new partitions are followed too"


def test_nothing_to_read_is_said_and_valid_json_all_the_same(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = told("-p", "2", "-o", "json")
    assert made.settings is None
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"kind": "records/v1", "items": []}
    assert "-F waits" in printed.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-F", "--to", "end"], 2, "-F and --to can't be combined"),
        (["-F", "--from", "99"], 2, "--from 99: orders-0 ends at 5"),
        (["--from", "soon"], 2, "--from 'soon' is not a position in a partition"),
        (["-f", "%z"], 2, "-f: '%z' is not a format verb"),
        (["-n", "0"], 2, "see `ottla consume --help`"),
        (["-p", "3"], 4, "orders has no partition 3"),
        (["-g", "billing", "-p", "0"], 2, "--group can't be combined with --to or -p"),
        (["-g", "billing", "--to", "end"], 2, "--group can't be combined with --to or -p"),
        (["-g", "billing", "--from", "-5"], 2, "`ottla group reset billing` moves the group's offsets"),
        (["-g", "billing", "--from", "99"], 2, "`ottla group reset billing` moves the group's offsets"),
    ],
)
def test_what_can_not_be_is_told_before_anything_is_read(
    told: Told, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    made, _ = told(*arguments, code=code)
    assert made.settings is None
    assert words in capsys.readouterr().err
