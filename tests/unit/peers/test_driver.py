"""Drivers: programs in other languages behind the calls of a client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.client import Rec
from peers.driver import Driver
from peers.place import PeerError

# Says what it was asked in the name it answers with; answers each record before it takes the next.
FAKE = """
import json, sys
what, options = sys.argv[1], json.loads(sys.argv[2])
if what == "version":
    print(json.dumps({"name": "fake", "version": "1.2"}))
elif what == "produce":
    for offset, line in enumerate(sys.stdin):
        print(line.strip(), file=sys.stderr)
        print(json.dumps({"offset": offset + options["partition"]}), flush=True)
    sys.exit(3 if options["topic"] == "fails" else 0)
elif what == "consume":
    for _ in range(options["count"]):
        print(json.dumps({"key": None, "value": "AP8=", "headers": [["h", None], ["h", ""]], "timestamp_ms": 7}))
elif what == "offset-for-time":
    print(json.dumps({"offset": None if options["timestamp_ms"] > 5 else 1}))
elif what == "admin":
    print(json.dumps({"ok": options["topic"] == "good", "did": ["create"]}))
"""


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    program = tmp_path / "fake.py"
    program.write_text(FAKE)
    return Driver([sys.executable, str(program)])


def test_it_says_who_it_is(driver: Driver) -> None:
    assert (driver.name, driver.version) == ("fake", "1.2")


def test_records_go_there_and_come_back(driver: Driver) -> None:
    assert driver.produce("b", "t", [Rec(b"k", b"v")] * 3, partition=5) == [5, 6, 7]
    assert driver.consume("b", "t", 2) == [Rec(None, b"\0\xff", (("h", None), ("h", b"")), 7)] * 2


def test_answers_and_words_may_be_more_than_a_pipe_holds(driver: Driver) -> None:
    assert driver.produce("b", "t", [Rec(None, b"v" * 1000)] * 500) == list(range(500))


def test_an_offset_or_none(driver: Driver) -> None:
    assert driver.offset_for_time("b", "t", 5) == 1
    assert driver.offset_for_time("b", "t", 6) is None


def test_what_it_could_do_of_administration(driver: Driver) -> None:
    assert driver.admin_round_trip("b", "good") == ["create"]
    with pytest.raises(PeerError, match="'ok': False"):
        driver.admin_round_trip("b", "bad")


def test_a_failure_comes_with_the_drivers_words(driver: Driver) -> None:
    with pytest.raises(PeerError, match=r"produce ended with 3:\n.*" + json.dumps("dg==")):
        driver.produce("b", "fails", [Rec(None, b"v")])


def test_a_driver_that_has_left_is_not_waited_for() -> None:
    gone = Driver([sys.executable, "-c", "import sys; sys.exit('no such codec')"])
    with pytest.raises(PeerError, match="no such codec"):
        gone.produce("b", "t", [Rec(None, b"v" * 100_000)] * 10)


def test_records_that_fail_end_the_driver(driver: Driver) -> None:
    def records() -> Iterator[Rec]:
        yield Rec(None, b"v")
        raise ValueError("the test's own")

    with pytest.raises(ValueError, match="own"):
        driver.produce("b", "t", records())
