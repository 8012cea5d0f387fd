"""A client in Python as a driver: what goes in at `Driver` comes out at the client's calls, and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from peers.client import Rec
from peers.driver import Driver
from peers.place import HERE, PeerError

ECHO = """
from pathlib import Path
from peers.client import Rec

class Echo:
    name, version = "echo", "1.2"

    def produce(self, bootstrap, topic, records, *, acks, codec, idempotent, partition):
        told = list(records)
        Path(topic).write_text(repr((bootstrap, acks, codec, idempotent, partition, told)))
        return list(range(len(told)))

    def consume(self, bootstrap, topic, count, *, offset, partitions, isolation):
        return [Rec(None, b"\\xff", (("h", None), ("h", b"")), offset + n) for n in range(count)]

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        return None if timestamp_ms > 5 else 1

    def admin_round_trip(self, bootstrap, topic):
        if topic == "bad":
            raise ValueError("there is no such thing")
        return ["create"]
"""


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    (tmp_path / "echo_client.py").write_text(ECHO)
    path = f"{tmp_path}{os.pathsep}{HERE.parent}"
    return Driver([sys.executable, "-m", "peers.python_driver", "echo_client:Echo"], PYTHONPATH=path)


def test_it_passes_on_what_is_asked_and_answered(driver: Driver, tmp_path: Path) -> None:
    records = [Rec(None, b"\0", (("ü", None),), 7), Rec(b"k", None)]
    topic = str(tmp_path / "told")
    assert driver.produce("b:1", topic, records, acks=1, codec="zstd", idempotent=True, partition=3) == [0, 1]
    assert Path(topic).read_text() == repr(("b:1", 1, "zstd", True, 3, records))
    assert driver.consume("b:1", "t", 2, offset=5) == [
        Rec(None, b"\xff", (("h", None), ("h", b"")), 5 + n) for n in (0, 1)
    ]
    assert (driver.offset_for_time("b:1", "t", 5), driver.offset_for_time("b:1", "t", 6)) == (1, None)
    assert driver.admin_round_trip("b:1", "t") == ["create"]
    assert (driver.name, driver.version) == ("echo", "1.2")


def test_what_the_client_raises_is_told(driver: Driver) -> None:
    with pytest.raises(PeerError, match="there is no such thing"):
        driver.admin_round_trip("b:1", "bad")
