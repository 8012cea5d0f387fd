"""Clients in other languages: a small program around each, the driver, behind the calls of `Client`.

A driver is called as `<command> <what> <options as JSON>`, and answers in JSON lines on stdout. What it says on stderr
is for people. It ends with 0 where all went well, and within 30 s.

    version             prints {"name": …, "version": …}
    produce             {"bootstrap", "topic", "acks": -1|0|1, "codec", "idempotent": bool, "partition"}
                        takes records from stdin, one a line, sends them as they come, and prints {"offset": n} for
                        each in their order: -1 with acks=0. Partition -1: the client chooses one by the key.
    consume             {"bootstrap", "topic", "count", "offset", "partitions", "isolation": isolation.level}
                        prints so many records of partitions 0 to partitions - 1, from the offset on of each.
    transact            {"bootstrap", "topic", "transactional_id"}
                        takes over the id, then from stdin records, for partition 0, and {"do": "begin"|"commit"|
                        "abort"}, a line each. Prints nothing.
    transform           {"bootstrap", "source", "topic", "group", "transactional_id", "count", "end"}
                        copies so many records as a member of the group, in one transaction with the group's offsets.
                        Prints nothing.
    offset-for-time     {"bootstrap", "topic", "timestamp_ms"}
                        prints {"offset": n} of partition 0, null where no record is as late.
    admin               {"bootstrap", "topic", "op": "roundtrip"}
                        prints {"ok": true, "did": [some of ADMIN_STEPS]}
    group               {"bootstrap", "topic", "group", "assignor": "range"|"cooperative-sticky"|"uniform",
                        "instance": name|null, "reset": "earliest"|"latest", "protocol": "classic"|"consumer",
                        "session_ms"}
                        is a member of the group, and prints a line for each event as it happens:
                        {"assigned": [partitions that it gets]}, {"revoked": [partitions that it gives up]},
                        {"lost": [partitions that it has lost already]} and
                        {"record": {"partition", "offset", "value": base64}}. It takes commands from stdin, one a line:
                        "commit" how far it has read, "seek <partition> <offset>", each answered with {"done": command},
                        or a commit that is refused with {"failed": command, "error": words}. With "close", or at the
                        end of stdin, it leaves and ends. No limit of 30 s. Each line also has "at_ns", the time by
                        Linux's CLOCK_MONOTONIC, which all processes of a machine share. An answer to a commit has
                        "asked_ns" too, the time at which the commit began.

    by-hand             {"bootstrap", "topic", "group"}, of franz-go alone
                        is a member of the consumer protocol that is made of single requests: peers/go/by_hand.go. It
                        reads nothing, and tells of its partitions as `group` does. It commits each partition that it
                        has given up in an older epoch, which has to be refused, and prints
                        {"old_commit": {"partition", "epoch", "now": its present epoch, "error": name, "NONE": taken}}.
                        With "close", or at the end of stdin, it leaves and ends. No limit of 30 s.

    rebalance           {"bootstrap", "topic", "group", "partitions", "count", "slow_ms"}, of franz-go alone
                        has so many members of the consumer protocol in one process, then a tenth more, while one of
                        them is slow to give its partitions up. It prints one object, in seconds: "stable_s" and
                        "again_s" are how long the group took until its members shared all partitions, "pause_s" is the
                        longest time for which another member got no record meanwhile. No limit of 30 s.

    experience          {"bootstrap", "topic", "story"}, of the Java client alone
                        goes through a story (peers/java/Experience.java) and prints its facts, one object: for each
                        act the class of the exception that it raised, or `well`. No limit of 30 s.

    consumers           {}, of the Java client alone
                        takes calls from stdin, one a line, {"who": name of a consumer, "what", "with": arguments}, and
                        answers each by {"gives": value} or {"raises": class, "message"}: peers/java/consumers.py. It
                        ends at the end of stdin. No limit of 30 s.

The security of its connections is not in the options: peers/security.py says where it is found.

A record is {"key": base64|null, "value": base64|null, "headers": [[name, base64|null], …], "timestamp_ms": n}.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from peers import security
from peers.client import LIMIT_S, End, GroupProtocol, Rec, Step
from peers.member import DrivenMember
from peers.place import PeerError

SESSION_MS: Final = 30_000
"""After so long without a heartbeat a member of the classic protocol is none any more."""
_GRACE_S: Final = 15.0
"""Beyond the driver's own deadline: a start, and a last word about what went wrong."""
_STORY_S: Final = 240.0
_REBALANCES_S: Final = 400.0
_REFUSAL_S: Final = 5.0
_TAIL_CHARS: Final = 2000


class Driver:
    """The client that a driver drives. Raises PeerError with the driver's words where it fails."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._command = list(command)
        self._environment = environment

    @property
    def name(self) -> str:
        return str(self._about["name"])

    @property
    def version(self) -> str:
        return str(self._about["version"])

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
        answers = self._call(
            "produce",
            records,
            bootstrap=bootstrap,
            topic=topic,
            acks=acks,
            codec=codec,
            idempotent=idempotent,
            partition=partition,
        )
        return [int(answer["offset"]) for answer in answers]

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
        answers = self._call(
            "consume",
            bootstrap=bootstrap,
            topic=topic,
            count=count,
            offset=offset,
            partitions=partitions,
            isolation=isolation,
        )
        return [record_of(answer) for answer in answers]

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        self._call("transact", steps, bootstrap=bootstrap, topic=topic, transactional_id=transactional_id)

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        self._call(
            "transform",
            bootstrap=bootstrap,
            source=source,
            topic=topic,
            group=group,
            transactional_id=transactional_id,
            count=count,
            end=end,
        )

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        (answer,) = self._call("offset-for-time", bootstrap=bootstrap, topic=topic, timestamp_ms=timestamp_ms)
        return None if answer["offset"] is None else int(answer["offset"])

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        (answer,) = self._call("admin", bootstrap=bootstrap, topic=topic, op="roundtrip")
        if answer["ok"] is not True:
            raise PeerError(f"{self._command[-1]} admin answers {answer}")
        return list(answer["did"])

    def experience(self, bootstrap: str, topic: str, story: str) -> dict[str, str]:
        """Have the Java client go through a story, and return its facts."""
        (facts,) = self._call("experience", bootstrap=bootstrap, topic=topic, story=story, limit_s=_STORY_S)
        return {name: str(fact) for name, fact in facts.items()}

    def rebalance(
        self, bootstrap: str, topic: str, group: str, *, partitions: int, count: int, slow_ms: int
    ) -> dict[str, float]:
        """Have franz-go measure the rebalances of a large group, and return its figures."""
        (figures,) = self._call(
            "rebalance",
            limit_s=_REBALANCES_S,
            bootstrap=bootstrap,
            topic=topic,
            group=group,
            partitions=partitions,
            count=count,
            slow_ms=slow_ms,
        )
        return {name: float(figure) for name, figure in figures.items()}

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
    ) -> DrivenMember:
        command = self.member(
            bootstrap=bootstrap,
            topic=topic,
            group=group,
            assignor=assignor,
            instance=instance,
            reset=reset,
            protocol=protocol,
        )
        return DrivenMember(command, self._environment)

    def member(self, *, session_ms: int = SESSION_MS, **options: Any) -> list[str]:
        """Return the command of a member, which tells of its events on stdout and is told what to do on stdin."""
        return [*self._command, "group", json.dumps({**options, "session_ms": session_ms})]

    def member_by_hand(self, **options: str) -> list[str]:
        """Return the command of a member that commits in epochs that are over."""
        return [*self._command, "by-hand", json.dumps(options)]

    @property
    def environment(self) -> Mapping[str, str]:
        """What its commands need in their environment, besides what this process has there."""
        return self._environment

    def secured(self, folder: Path) -> Driver:
        """Return a driver of this client whose connections have the security in the folder."""
        return Driver(self._command, **{**self._environment, security.VARIABLE: str(folder)})

    def refusal(self, bootstrap: str, topic: str) -> str:
        """Return all that the client says if a broker refuses its connection, and "" if none does. It has a few
        seconds, because some clients try for ever."""
        options = {"bootstrap": bootstrap, "topic": topic, "timestamp_ms": 0}
        ended = self._run("offset-for-time", (), _REFUSAL_S, options)
        return "" if ended.code == 0 else ended.complained or "nothing"

    def program(self, what: str) -> list[str]:
        """Return the command of a program that answers calls until its stdin is closed."""
        return [*self._command, what, "{}"]

    @cached_property
    def _about(self) -> dict[str, Any]:
        (answer,) = self._call("version")
        return answer

    def _call(
        self, what: str, steps: Iterable[Step] = (), *, limit_s: float = LIMIT_S, **options: Any
    ) -> list[dict[str, Any]]:
        """What the driver answers, a line each."""
        ended = self._run(what, steps, limit_s, options)
        if ended.code != 0:
            how = f"has not ended in {limit_s + _GRACE_S:.0f} s" if ended.code is None else f"ended with {ended.code}"
            raise PeerError(f"{self._command[-1]} {what} {how}:\n{ended.complained[-_TAIL_CHARS:]}")
        return [json.loads(line) for line in ended.said.splitlines()]

    def _run(self, what: str, steps: Iterable[Step], limit_s: float, options: Mapping[str, Any]) -> _Ended:
        process = subprocess.Popen(
            [*self._command, what, json.dumps(options)],
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        # Read all along: a driver may answer before it has got its last record, and must not wait for us then.
        said, complained = _Reader(process.stdout), _Reader(process.stderr)
        code: int | None = None
        try:
            # A driver that leaves early breaks the pipe; its exit code tells why.
            with suppress(BrokenPipeError), process.stdin as to_driver:
                for step in steps:
                    to_driver.write(_step_line(step))
                    to_driver.flush()
            # The limit begins only now: how long the records take is the test's affair.
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(limit_s + _GRACE_S)
        finally:
            process.kill()  # nothing where it has ended
            process.wait()
            said.join()
            complained.join()
        return _Ended(code, said.data, complained.data.decode(errors="replace"))


class _Ended(NamedTuple):
    """A driver's exit code, None where it had to be killed, and what it has written to stdout and stderr."""

    code: int | None
    said: bytes
    complained: str


class _Reader:
    """Reads a stream to its end on a thread of its own."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.data = b""
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        with self._stream as stream:
            self.data = stream.read()


def record_line(record: Rec) -> bytes:
    """A record as the protocol has it, with the end of its line."""
    fields = {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
        "timestamp_ms": record.timestamp_ms,
    }
    return json.dumps(fields).encode() + b"\n"


def _step_line(step: Step) -> bytes:
    return record_line(step) if isinstance(step, Rec) else json.dumps({"do": step}).encode() + b"\n"


def step_of(fields: dict[str, Any]) -> Step:
    """Parse the fields of a step's line."""
    return fields["do"] if "do" in fields else record_of(fields)


def record_of(fields: dict[str, Any]) -> Rec:
    """Parse the fields of a record's line."""
    headers = tuple((str(name), _bytes(value)) for name, value in fields["headers"])
    return Rec(_bytes(fields["key"]), _bytes(fields["value"]), headers, int(fields["timestamp_ms"]))


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
