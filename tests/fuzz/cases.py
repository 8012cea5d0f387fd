"""The cases: what is sent, and what may come of it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.fuzz import batches
from tests.fuzz.lies import BOMBS, HARMLESS, LIES
from tests.fuzz.messages import Composer, Draft, varint
from tests.fuzz.world import BASE_TOPICS, INTERNAL, World

from ottla_broker.kafka.api import Api

PRODUCE, FETCH, JOIN_GROUP, SYNC_GROUP, API_VERSIONS = 0, 1, 11, 14, 18
PRODUCE_BY_ID: Final = 13
_LIMIT_S: Final = 5_000


class Expect(Enum):
    """What may come of a case. `ANYTHING`: whatever comes is framed as it must be, and the connection ends with us."""

    ANSWER = "an answer"
    EITHER = "an answer, or the end of the connection"
    END = "the end of the connection"
    ANYTHING = "anything well formed, and an end"


@dataclass(frozen=True, slots=True)
class Case:
    """`answer_version`: that of the answer, which is not always that of the request. `may_be_silent`: acks=0.

    `may_park`: it says how long it waits, or waits for other members of a group. `must_refuse`: every partition of the
    answer has an error. `resets`: our end of the connection is a reset.
    """

    kind: str
    key: int
    version: int
    data: bytes
    expect: Expect
    correlation_id: int = 0
    answer_version: int = 0
    may_be_silent: bool = False
    may_park: bool = False
    must_refuse: bool = False
    resets: bool = False


class Cases:
    """An endless stream of cases, the same for the same seed but for the ids of topics; every version in turn.

    `pairs`: each API key with each version that is advertised for it.
    """

    def __init__(self, served: Iterable[Api], world: World, seed: int) -> None:
        self._world: Final = world
        self._random: Final = random.Random(seed)
        self._composer: Final = Composer(world, self._random)
        self._served: Final = {each.key: each for each in served}
        self.pairs: Final = {
            (s.key, v) for s in self._served.values() for v in range(s.advertised_min, s.max_version + 1)
        }
        self._turns: list[tuple[int, int]] = []
        self._bombs_turns: list[tuple[int, int]] = []
        self._sent = 0

    def next(self) -> Case:
        self._sent += 1
        kinds = self._random.random()
        key, version = self._next_of(self._turns)
        if kinds < 0.30:
            return self._valid(key, version)
        if kinds < 0.34:
            return self._harmless(key, version)
        if kinds < 0.80:
            return self._lie(key, version)
        if kinds < 0.81:
            return self._bomb()
        if kinds < 0.88:
            return self._produced()
        if kinds < 0.91:
            return self._pretended_follower()
        if kinds < 0.95:
            return self._unknown(key)
        return self._raw(key, version)

    # ---- the kinds -------------------------------------------------------------------------------------------------

    def _valid(self, key: int, version: int) -> Case:
        client_id = self._random.choice((None, "", "fuzz", "fuzz", "c" * 2_000))
        return self._case("valid", self._composer.draft(key, version, client_id=client_id), self._due(key, version))

    def _harmless(self, key: int, version: int) -> Case:
        kind = self._random.choice(list(HARMLESS))
        draft = self._composer.draft(key, version)
        HARMLESS[kind](draft, self._random)
        return self._case(kind, draft, self._due(key, version))

    def _due(self, key: int, version: int) -> Expect:
        """A version that is advertised but not served ends the connection (apis.Api.advertised_from)."""
        return Expect.ANSWER if version >= self._served[key].min_version else Expect.END

    def _lie(self, key: int, version: int) -> Case:
        kind = self._random.choice(list(LIES))
        draft = self._composer.draft(key, version, is_tame=True)
        LIES[kind](draft, self._random)
        return self._case(kind, draft, Expect.EITHER)

    def _bomb(self) -> Case:
        """There are few, so that they take turns of their own."""
        key, version = self._next_of(self._bombs_turns)
        kind = self._random.choice(list(BOMBS))
        with_tags = self._random.random() < 0.5
        draft = self._composer.draft(key, version, is_tame=True, with_tags=with_tags)
        BOMBS[kind](draft, self._random)
        return self._case(kind, draft, Expect.EITHER)

    def _produced(self) -> Case:
        """A produce whose batches are known to be wrong, or that is for a topic that clients don't write to."""
        served = self._served[PRODUCE]
        version = self._random.randint(served.min_version, served.max_version)
        is_by_id = version >= PRODUCE_BY_ID
        if self._random.random() < 0.2 and not is_by_id:
            return self._refused_produce("internal", version, INTERNAL, batches.good(self._random))
        lie = self._random.choice(list(batches.REFUSED))
        topic = self._random.choice(self._world.topic_ids if is_by_id else BASE_TOPICS)
        return self._refused_produce(f"batch: {lie}", version, topic, batches.REFUSED[lie](self._random))

    def _refused_produce(self, kind: str, version: int, topic: str | bytes, records: bytes) -> Case:
        draft = simple_produce(version, topic, records)
        return self._case(kind, draft, Expect.ANSWER, must_refuse=True)

    def _pretended_follower(self) -> Case:
        served = self._served[FETCH]
        version = self._random.randint(served.min_version, min(served.max_version, 12))
        draft = simple_fetch(version, self._random.choice(BASE_TOPICS), 0, replica_id=self._random.choice((0, 1, 7)))
        return self._case("follower", draft, Expect.ANSWER, must_refuse=True)

    def _unknown(self, key: int) -> Case:
        """A key or a version that is not served (rule 71)."""
        self._sent += 1
        served = self._served[key]
        version = self._random.choice((served.max_version + 1, -1, 99, 32_767, -32_768))
        if self._random.random() < 0.5:
            key = self._random.choice([k for k in (4, 5, 6, 7, 58, 93, 999, -1, 32_767) if k not in self._served])
        draft = Draft(key, version, bytearray(struct.pack(">ihhih", 0, key, version, 0, -1)))
        draft.data += self._random.randbytes(self._random.choice((0, 1, 30)))
        if key == API_VERSIONS:
            return self._case("unknown version", draft, Expect.ANSWER, answer_version=0)
        return self._case("unknown", draft, Expect.END)

    def _raw(self, key: int, version: int) -> Case:
        """Bytes that are not even a frame, or a frame that is not whole."""
        draft = self._composer.draft(key, version, is_tame=True)
        frame = bytearray(draft.frame(self._sent))
        kind, data, ends = self._not_a_frame(frame)
        expect = Expect.END if ends else Expect.ANYTHING
        return Case(kind, key, version, data, expect, resets=self._random.random() < 0.2)

    def _not_a_frame(self, frame: bytearray) -> tuple[str, bytes, bool]:
        """Its kind, the bytes, and whether the broker has to end the connection without our help."""
        random_ = self._random
        match random_.randrange(8):
            case 0:
                return "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random_.randbytes(500), True
            case 1:
                return "HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", True
            case 2:
                wrong = random_.choice((-1, 0, 1, 9, -(2**31), 2**31 - 1, 105_000_000))
                return "no size", struct.pack(">i", wrong) + bytes(frame[4:]), True
            case 3:
                off = random_.choice((-1, 1, -4, 4, 100, 1_000_000))
                struct.pack_into(">i", frame, 0, max(10, len(frame) - 4 + off))
                return "lying size", bytes(frame), False
            case 4:
                return "half a frame", bytes(frame[: random_.randrange(1, len(frame))]), False
            case 5:
                cut = frame[: random_.randrange(8, 15)]
                struct.pack_into(">i", cut, 0, len(cut) - 4)
                return "half a header", bytes(cut), len(cut) < 14
            case 6:
                for _ in range(random_.choice((1, 2, 5))):
                    frame[random_.randrange(4, min(20, len(frame)))] ^= 1 << random_.randrange(8)
                return "flipped header", bytes(frame), False
            case _:
                return "noise", random_.randbytes(random_.choice((1, 7, 8, 60, 3_000))), False

    # ---- how they are made -----------------------------------------------------------------------------------------

    def _case(
        self, kind: str, draft: Draft, expect: Expect, *, must_refuse: bool = False, answer_version: int | None = None
    ) -> Case:
        is_lie = expect is Expect.EITHER
        if draft.acks == 0 and expect is Expect.ANSWER:
            expect = Expect.EITHER  # what fails under acks=0 ends the connection (rule 66)
        return Case(
            kind,
            draft.key,
            draft.version,
            draft.frame(self._sent),
            expect,
            self._sent,
            draft.version if answer_version is None else answer_version,
            may_be_silent=draft.key == PRODUCE and (is_lie or draft.acks == 0),
            may_park=draft.key in (JOIN_GROUP, SYNC_GROUP) or (draft.key == FETCH and is_lie),
            must_refuse=must_refuse,
        )

    def _next_of(self, turns: list[tuple[int, int]]) -> tuple[int, int]:
        """Each API in each version as often as any other."""
        if not turns:
            turns += sorted(self.pairs)
            self._random.shuffle(turns)
        return turns.pop()


def simple_produce(version: int, topic: str | bytes, records: bytes, acks: int = -1) -> Draft:
    """One batch for partition 0, in any version from 3 to 13, which has the id of the topic instead of its name."""
    data, flexible = _header(PRODUCE, version, flexible=version >= 9), version >= 9
    data += (b"\0" if flexible else b"\xff\xff") + struct.pack(">hi", acks, _LIMIT_S)
    data += _array(flexible) + (topic if isinstance(topic, bytes) else _string(topic, flexible))
    data += _array(flexible) + bytes(4)
    data += _length(len(records), flexible) + records
    return Draft(PRODUCE, version, data + (b"\0\0\0" if flexible else b""), acks=acks)


def simple_fetch(version: int, topic: str, offset: int, *, replica_id: int = -1, max_wait_ms: int = 0) -> Draft:
    """Make a fetch of partition 0, in any version from 4 to 12."""
    flexible = version >= 12
    data = _header(FETCH, version, flexible=flexible)
    data += struct.pack(">iiiib", replica_id, max_wait_ms, 1, 1 << 20, 0)
    data += struct.pack(">ii", 0, -1) if version >= 7 else b""
    data += _array(flexible) + _string(topic, flexible) + _array(flexible) + bytes(4)
    data += struct.pack(">i", -1) if version >= 9 else b""
    data += struct.pack(">q", offset) + (struct.pack(">i", -1) if flexible else b"")
    data += struct.pack(">q", -1) if version >= 5 else b""
    data += struct.pack(">i", 1 << 20) + (b"\0\0\1" if flexible else b"\0\0\0\0" if version >= 7 else b"")
    data += _string("", flexible) if version >= 11 else b""
    return Draft(FETCH, version, data + (b"\0" if flexible else b""))


def _header(key: int, version: int, *, flexible: bool) -> bytearray:
    return bytearray(struct.pack(">ihhih", 0, key, version, 0, 4) + b"fuzz" + (b"\0" if flexible else b""))


def _array(flexible: bool) -> bytes:
    """Encode the length of an array with one element."""
    return b"\2" if flexible else b"\0\0\0\1"


def _string(text: str, flexible: bool) -> bytes:
    return (bytes([len(text) + 1]) if flexible else struct.pack(">h", len(text))) + text.encode()


def _length(length: int, flexible: bool) -> bytes:
    return varint(length + 1) if flexible else struct.pack(">i", length)
