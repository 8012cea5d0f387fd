"""kcat, the command line that many people look into a cluster with: Debian's package, with the librdkafka of its day.

What it can't do, with any broker: it sets no timestamps, has no admin calls, writes no zero byte in a header (headers
are words of its command line), and no empty value without a key. Headers are set for a whole run of it, so records
with others are a run of their own; and so are tombstones. It has no transactions, and reads those of others.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from peers import security
from peers.client import LIMIT_S, End, GroupProtocol, Rec, Step
from peers.kcat_member import KcatMember
from peers.place import PeerError, program

LACKS: Final = frozenset(
    {"timestamps", "headers", "admin", "seek", "transactions", "offsets in transactions", "fencing"}
)
"""In the words of the matrix; its own test shows what it can do of headers."""

_MAX_BYTES: Final = 10_000_000
_TAIL_CHARS: Final = 2000


class Kcat:
    """Raises PeerError where kcat can't be had, and where it fails."""

    name = "kcat"

    def __init__(self) -> None:
        self._kcat: Final = program("kcat", "kcat")

    @cached_property
    def version(self) -> str:
        said = self._run("-V").decode()
        kcat, library = re.findall(r"(?:Version|librdkafka) ([\d.]+)", said)
        return f"{kcat} with librdkafka {library}"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Iterable[Rec],
        *,
        acks: int = -1,
        codec: str = "none",
        idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        command = self.command("-P", "-b", bootstrap, "-t", topic, "-p", str(partition), "-z", codec, "-vvv")
        settings = {
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "linger.ms": 5,
            "message.max.bytes": _MAX_BYTES,
            "topic.message.timeout.ms": int(LIMIT_S * 900),  # so that it still says why
        }
        offsets: list[int] = []
        for (headers, tombstones), alike in groupby(records, lambda r: (r.headers, r.value is None)):
            more = [word for header in headers for word in ("-H", _header(*header))]
            offsets += _send([*command, *_words(settings), *more, *["-Z"] * tombstones], alike)
        return [-1 if acks == 0 else offset for offset in offsets]

    def consume(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        offset: int = 0,
        partitions: int = 1,
        isolation: str = "read_uncommitted",
    ) -> list[Rec]:
        """Read partition 0, or the whole topic if it has several partitions: kcat reads one partition or all."""
        of = ["-p", "0"] if partitions == 1 else []
        settings = _words({"fetch.message.max.bytes": _MAX_BYTES, "isolation.level": isolation})
        wanted = ["-o", str(offset), "-c", str(count), "-J", "-q", *settings]
        said = self._run("-C", "-b", bootstrap, "-t", topic, *of, *wanted)
        return [_record(line) for line in said.splitlines()]

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        raise PeerError("kcat has no transactions")

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        raise PeerError("kcat has no transactions")

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        said = self._run("-Q", "-b", bootstrap, "-t", f"{topic}:0:{timestamp_ms}").decode()
        offset = int(said.split()[-1])
        return None if offset == -1 else offset

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        raise PeerError("kcat has no admin calls")

    def join(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        assignor: str = "range",
        instance: str | None = None,
        reset: str = "earliest",
        protocol: GroupProtocol = "classic",
    ) -> KcatMember:
        if protocol != "classic":
            raise PeerError("kcat is driven in the classic protocol alone")
        settings: dict[str, object] = {
            "partition.assignment.strategy": assignor,
            "auto.offset.reset": reset,
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 500,
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        return KcatMember(self.command("-b", bootstrap, *_words(settings)), topic, group)

    def command(self, *arguments: str) -> list[str]:
        """Return a command line with the security of this process's connections."""
        return [self._kcat, *_words(security.librdkafka()), *arguments]

    def _run(self, *arguments: str) -> bytes:
        """What it says on stdout."""
        try:
            done = subprocess.run(self.command(*arguments), capture_output=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"kcat {' '.join(arguments)} has not ended in {LIMIT_S:.0f} s") from error
        _check(done.returncode, done.stderr, arguments)
        return done.stdout


def _send(command: Sequence[str | bytes], records: Iterable[Rec]) -> list[int]:
    """Their offsets, by one run of kcat."""
    between, after_key = secrets.token_hex(), secrets.token_hex()
    command = [*command, "-D", between, "-K", after_key]
    count = 0
    # Into a file, not a pipe: nobody reads while it is fed.
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=told)
        try:
            assert process.stdin is not None
            with process.stdin as to_kcat:
                for count, record in enumerate(records, 1):  # noqa: B007 the last one counts
                    to_kcat.write(_fields(record, after_key.encode()) + between.encode())
                    to_kcat.flush()
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise PeerError(f"kcat has not delivered everything in {LIMIT_S:.0f} s") from None
        finally:
            process.kill()  # nothing where it has ended
            process.wait()
        told.seek(0)
        words = told.read()
    _check(process.returncode, words, command)
    offsets = [int(offset) for offset in re.findall(rb"delivered to partition \d+ \(offset (-?\d+)\)", words)]
    if len(offsets) != count:
        raise PeerError(f"kcat has delivered {len(offsets)} of {count} records:\n{_tail(words)}")
    return offsets


def _fields(record: Rec, after_key: bytes) -> bytes:
    """As it takes them from stdin: without a key there is nothing to end it, and nothing at all is no record."""
    if record.value is None and record.key != b"":  # with -Z what is empty is null, the key too
        return (record.key or b"") + after_key
    if record.key is None and record.value:
        return record.value
    if record.key is not None and record.value is not None:
        return record.key + after_key + record.value
    raise PeerError(f"kcat can't send {record}")


def _header(name: str, value: bytes | None) -> str | bytes:
    return name if value is None else name.encode() + b"=" + value


def _record(line: bytes) -> Rec:
    """Parse a line of JSON that may contain raw bytes which are not valid UTF-8."""
    fields: dict[str, Any] = json.loads(line.decode(errors="surrogateescape"))
    headers = fields.get("headers", [])
    pairs = tuple((name, _bytes(value)) for name, value in zip(headers[::2], headers[1::2], strict=True))
    return Rec(_bytes(fields["key"]), _bytes(fields["payload"]), pairs, int(fields["ts"]))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")


def _words(settings: Mapping[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]


def _check(code: int, words: bytes, arguments: object) -> None:
    if code != 0:
        raise PeerError(f"kcat {arguments} ended with {code}:\n{_tail(words)}")


def _tail(words: bytes) -> str:
    return words.decode(errors="replace")[-_TAIL_CHARS:]
