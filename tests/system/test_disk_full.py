"""A broker whose disk is full: it refuses in words, stays up, loses nothing, and goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.running import RunningStack

MEGABYTE = 1_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The data directory of broker 0 as a file system of its own, of 48 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root; storage's unit tests show the same on a faked one")
    directory = tmp_path / "stack" / "broker-0"
    directory.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while file.write(bytes(MEGABYTE)):
            pass


def test_a_full_disk_refuses_in_words_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    with RunningStack(small_disk.parent, brokers=1) as stack:
        ottla.Admin(stack.bootstrap).topics.create("t")
        pid = stack.pid("broker-0")
        with ottla.Producer(stack.bootstrap, topic="t", value="bytes", acks="all") as steady:
            kept = [steady.send(b"%d" % n).result(timeout=30).offset for n in range(100)]
            filler = small_disk / "filler"
            with pytest.raises(OSError, match="No space left"):
                fill(filler)
            impatient = ottla.Producer(
                stack.bootstrap, topic="t", value="bytes", linger=0, delivery_timeout=1.5, request_timeout=1
            )
            with pytest.raises(OttlaError) as refused:
                impatient.send(bytes(MEGABYTE // 2)).result(timeout=30)
            assert ErrorCode.KAFKA_STORAGE_ERROR.name in str(refused.value) or "room" in str(refused.value)
            assert "Traceback" not in str(refused.value)
            impatient.close(timeout=5)

            waiting = steady.send(b"100")
            filler.unlink()
            kept.append(waiting.result(timeout=60).offset)
            kept.append(steady.send(b"101").result(timeout=60).offset)
        assert stack.pid("broker-0") == pid, "it stayed up"
        stack.restart("broker-0")
        with ottla.Consumer("t", bootstrap=stack.bootstrap, start="earliest", stop="end", value="bytes") as consumer:
            found = {record.offset: record.value for record in consumer}
        assert [found[offset] for offset in kept] == [b"%d" % n for n in range(102)]
