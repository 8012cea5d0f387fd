"""Kafka's own message classes, in a Java program that reads messages and writes them again; and Kafka's error codes."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from peers.kafka import jars
from peers.place import PeerError

_PROGRAM: Final = Path(__file__).parent / "Messages.java"
_ERROR_CODES: Final = Path(__file__).parent / "ErrorCodes.java"
_LIMIT_S: Final = 60.0
_HEAD: Final = struct.Struct(">hi")
_SIZE: Final = struct.Struct(">i")


def error_codes() -> dict[int, tuple[str, bool]]:
    """Return the name of each error by its code, and whether Kafka retries after it.

    Raises PeerError where there is no JDK, or no jars.
    """
    command = jars.program(_ERROR_CODES)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {int(code): (name, retriable == "true") for code, name, retriable in rows}


class KafkaMessages:
    """One Java process, which takes a message at a time. Raises PeerError where there is no JDK, or no jars."""

    def __init__(self) -> None:
        command = jars.program(_PROGRAM)
        self._process: Final = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def again(self, name: str, version: int, data: bytes) -> bytes:
        """Return the bytes that Kafka writes for the message in `data`. Raises PeerError if it can't read them."""
        assert self._process.stdin is not None
        spelled = name.encode()
        self._process.stdin.write(struct.pack(">H", len(spelled)) + spelled + _HEAD.pack(version, len(data)) + data)
        self._process.stdin.flush()
        (size_bytes,) = _SIZE.unpack(self._read(_SIZE.size))
        if size_bytes < 0:
            raise PeerError(self._read(int.from_bytes(self._read(2), "big")).decode())
        return self._read(size_bytes)

    def _read(self, size_bytes: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size_bytes)
        if len(data) < size_bytes:
            raise PeerError("the Java program has ended")
        return data
