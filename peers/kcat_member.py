"""kcat -G: a member of a group that prints what it reads. It commits by itself, ten times a second and when it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO, Final

from peers.client import LIMIT_S, GroupRec
from peers.place import PeerError

_REBALANCED: Final = re.compile(rb"rebalanced.*?\b(assign|revoke)(.*)")
_PARTITION: Final = re.compile(rb"\[(\d+)\]")


class KcatMember:
    """`command` is kcat with all it needs but the format of its lines, the group and the topic."""

    def __init__(self, command: Sequence[str], topic: str, group: str) -> None:
        self.revoked: list[int] = []
        self.lost: list[int] = []
        self._assigned: set[int] = set()
        self._records: list[GroupRec] = []
        self._complaints: list[bytes] = []
        self._closing = False
        self._process: Final = subprocess.Popen(
            [*command, "-u", "-f", r"%p %o %s\n", "-G", group, topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers: Final = [
            threading.Thread(target=read, args=[stream], daemon=True)
            for read, stream in ((self._read_records, self._process.stdout), (self._read_words, self._process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def assignment(self) -> list[int]:
        self._check_alive()
        return sorted(self._assigned)

    def records(self) -> list[GroupRec]:
        self._check_alive()
        return list(self._records)

    def commit(self) -> None:
        """Nobody can tell it to: it has at the latest when it has closed."""

    def seek(self, partition: int, offset: int) -> None:
        raise PeerError("kcat can't seek in a group")

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise PeerError(f"kcat has not left its group in {LIMIT_S:.0f} s") from None
        finally:
            self._process.kill()  # nothing where it has ended
            self._process.wait()
            for reader in self._readers:
                reader.join()
            self._assigned = set()

    def _read_records(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                partition, offset, value = line.rstrip(b"\n").split(b" ", 2)
                self._records.append(GroupRec(int(partition), int(offset), value))

    def _read_words(self, lines: IO[bytes]) -> None:
        """As "% Group g rebalanced (memberid m): assigned: topic [0], topic [1]", or "incremental assignment of …"."""
        with lines:
            for line in lines:
                self._complaints.append(line)
                if (found := _REBALANCED.search(line)) is not None:
                    partitions = [int(number) for number in _PARTITION.findall(found[2])]
                    if found[1] == b"assign":
                        self._assigned = self._assigned | set(partitions)
                    else:
                        self._assigned = self._assigned - set(partitions)
                        self.revoked += [] if self._closing else partitions

    def _check_alive(self) -> None:
        if self._process.poll() is not None and not self._closing:
            words = b"".join(self._complaints[-20:]).decode(errors="replace")
            raise PeerError(f"kcat -G ended with {self._process.returncode}:\n{words}")
