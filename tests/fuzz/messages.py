"""Requests as bytes, made from Kafka's own message definitions, together with what one can lie about in them.

A field's value comes from a pool that `world` has for its name or its kind, so that much of what is sent names topics
that are there; the rest are boundaries. Nothing here is of the broker: the definitions are those of kafka-python.
"""

from __future__ import annotations

import importlib
import random
import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from kafka.protocol.api_message import ApiMessage
from tests.fuzz.world import World

CLIENT_ID: Final = "fuzz"
CORRELATION_AT: Final = 8
_BOUNDARY_SHARE: Final = 0.15
_NULL_SHARE: Final = 0.1
_COUNTS: Final = (0, 1, 1, 1, 2, 3)
_INTS: Final = {"int8": ("b", 8), "int16": ("h", 16), "int32": ("i", 32), "int64": ("q", 64)}
_UNKNOWN_TAG: Final = b"\xe7\x07\0"  # number 999, of no bytes
_MODULES: Final = ("admin", "consumer", "metadata", "producer")

OTHERS_MOST: Final = {18: 4, 28: 5, 42: 2}
"""The newest versions that kafka-python and kio know, where those of Kafka 4.4 are newer."""


class HasVersions(Protocol):
    """An API of the dispatch table."""

    @property
    def key(self) -> int: ...
    @property
    def min_version(self) -> int: ...
    @property
    def max_version(self) -> int: ...


def known_versions(api: HasVersions) -> range:
    """Those that are served, and that kafka-python and kio know."""
    return range(api.min_version, min(api.max_version, OTHERS_MOST.get(api.key, api.max_version)) + 1)


@dataclass(slots=True)
class Spot:
    """Something that a message says of itself: `kind` is length, count, tags or number, written at [start, end).

    What it speaks of ends at `content_end`. `plain_bytes`: the width of the number; 0 for a varint of one more.
    """

    kind: str
    start: int
    end: int
    content_end: int
    value: int
    plain_bytes: int
    is_nullable: bool = True


@dataclass(slots=True)
class Draft:
    """A frame in the making. `body_at`: where the header ends; `acks`: of a produce."""

    key: int
    version: int
    data: bytearray = field(default_factory=bytearray)
    spots: list[Spot] = field(default_factory=list)
    body_at: int = 0
    acks: int | None = None

    def frame(self, correlation_id: int) -> bytes:
        """With the size and the correlation id that belong to it."""
        struct.pack_into(">i", self.data, 0, len(self.data) - 4)
        struct.pack_into(">i", self.data, CORRELATION_AT, correlation_id)
        return bytes(self.data)


@cache
def request_types() -> dict[int, Any]:
    """The definitions of requests by their API key."""
    found: dict[int, Any] = {}
    for name in _MODULES:
        module = importlib.import_module(f"kafka.protocol.{name}")
        kinds: list[Any] = [e for e in vars(module).values() if isinstance(e, type) and issubclass(e, ApiMessage)]
        found.update({kind.API_KEY: kind for kind in kinds if kind.__name__.endswith("Request")})
    return found


class Composer:
    """Writes requests."""

    def __init__(self, world: World, random_: random.Random) -> None:
        self._world: Final = world
        self._random: Final = random_
        self._types: Final = request_types()
        self._draft = Draft(0, 0)
        self._flexible = False
        self._tame = False
        self._tag_bytes = b""

    def draft(
        self,
        key: int,
        version: int,
        *,
        is_tame: bool = False,
        with_tags: bool = False,
        client_id: str | None = CLIENT_ID,
    ) -> Draft:
        """A request that the definitions allow.

        `is_tame`: nothing that the cluster keeps, and nothing but values that make sense. `with_tags`: in each of its
        structures is a tagged field that nobody knows.
        """
        request_type = self._types[key]
        self._flexible, self._tame = request_type.flexible_version_q(version), is_tame
        self._tag_bytes = _UNKNOWN_TAG if with_tags else b""
        self._draft = draft = Draft(key, version)
        draft.data += struct.pack(">ihhi", 0, key, version, 0)
        text = None if client_id is None else client_id.encode()
        draft.data += struct.pack(">h", -1 if text is None else len(text)) + (text or b"")
        if self._flexible:
            self._tags(0)
        draft.body_at = len(draft.data)
        self._struct(request_type._struct, version)
        return draft

    # ---- fields ----------------------------------------------------------------------------------------------------

    def _struct(self, of: Any, version: int) -> None:
        for each in of.untagged_fields(version):
            self._field(each, version)
        if self._flexible:
            known = of.tagged_fields(version)._fields
            chosen = [f for f in known if self._random.random() < _NULL_SHARE]
            self._tags(len(chosen), lambda: [self._tagged(f, version) for f in chosen])

    def _field(self, of: Any, version: int) -> None:
        nullable = of.nullable_for_version_q(version)
        is_null = nullable and self._random.random() < _NULL_SHARE
        if of.is_array():
            self._array(of, version, is_null=is_null, nullable=nullable)
        elif of.is_struct():
            self._nullable_struct(of, version, is_null=is_null, nullable=nullable)
        else:
            self._simple(of, is_null=is_null, nullable=nullable)

    def _array(self, of: Any, version: int, *, is_null: bool, nullable: bool) -> None:
        count = -1 if is_null else self._random.choice(_COUNTS)
        spot = self._count("count", count, 4, nullable=nullable)
        for _ in range(count):
            if of.is_struct_array():
                self._struct(of.array_of, version)
            else:
                self._simple(of.array_of, is_null=False, nullable=False)
        spot.content_end = len(self._draft.data)

    def _nullable_struct(self, of: Any, version: int, *, is_null: bool, nullable: bool) -> None:
        if nullable:
            self._draft.data.append(0xFF if is_null else 1)
        if not is_null:
            self._struct(of, version)

    def _simple(self, of: Any, *, is_null: bool, nullable: bool) -> None:
        kind, data = of.type_str, self._draft.data
        if kind in ("string", "bytes", "records"):
            text = None if is_null else self._content(of, kind)
            spot = self._count("length", -1 if text is None else len(text), 2 if kind == "string" else 4, nullable)
            data += text or b""
            spot.content_end = len(data)
        elif kind in _INTS:
            layout, bits = _INTS[kind]
            value = self._number(of, bits)
            if of.name == "acks":
                self._draft.acks = value
            self._spot("number", struct.pack(f">{layout}", value), value, bits // 8)
        elif kind == "bool":
            data.append(self._flag(of.name))
        elif kind == "uuid":
            data += self._random.choice(self._world.topic_ids)
        else:
            raise AssertionError(f"{kind} is no kind of a request's field")

    def _tagged(self, of: Any, version: int) -> None:
        """A tagged field that the definition knows."""
        inner = Composer(self._world, self._random)
        inner._flexible = True
        inner._field(of, version)
        self._draft.data += varint(of.tag) + varint(len(inner._draft.data)) + inner._draft.data

    def _tags(self, count: int, write: Any = None) -> None:
        count += bool(self._tag_bytes)
        spot = self._spot("tags", varint(count), count, 0)
        if write is not None:
            write()
        self._draft.data += self._tag_bytes
        spot.content_end = len(self._draft.data)

    def _count(self, kind: str, count: int, plain_bytes: int, nullable: bool) -> Spot:
        spelled = varint(count + 1) if self._flexible else count.to_bytes(plain_bytes, "big", signed=True)
        spot = self._spot(kind, spelled, count, 0 if self._flexible else plain_bytes)
        spot.is_nullable = nullable
        return spot

    def _spot(self, kind: str, spelled: bytes, value: int, plain_bytes: int) -> Spot:
        start = len(self._draft.data)
        self._draft.data += spelled
        end = len(self._draft.data)
        self._draft.spots.append(Spot(kind, start, end, end, value, plain_bytes))
        return self._draft.spots[-1]

    # ---- values ----------------------------------------------------------------------------------------------------

    def _content(self, of: Any, kind: str) -> bytes:
        if kind == "records":
            return self._world.records(self._random)
        pool = self._world.texts(of.name, of._entity_type)
        if self._random.random() < _BOUNDARY_SHARE and not self._tame:
            pool = self._world.strange_texts
        return self._random.choice(pool).encode()

    def _number(self, of: Any, bits: int) -> int:
        pool = self._world.numbers(of.name, is_tame=self._tame)
        if pool is not None:
            return self._random.choice(pool)
        if self._random.random() < _BOUNDARY_SHARE and not self._tame:
            most = 1 << bits - 1
            return self._random.choice((-1, -2, -most, most - 1, most // 2))
        return self._random.choice((0, 0, 0, 1, 2))

    def _flag(self, name: str) -> bool:
        if name == "validate_only":
            return self._tame or self._random.random() < self._world.validate_share
        return self._random.random() < 0.5


def varint(value: int) -> bytes:
    """An unsigned varint, as long as it takes."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
