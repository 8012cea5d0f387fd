"""Requests and responses as bytes, made from Kafka's own definitions, together with the parts of them that can be
wrong.

A field's value comes from a pool that a vocabulary has for its name or its kind, so that much of what is sent names
topics that are there; the rest are boundaries. The definitions are those that ottla's codec is made from, so that the
fuzzers know each version that the broker or the SDK knows. What writes here is not that codec. kio judges what it
writes (`kio_schemas`), and Kafka's own classes do (`tests/compat/test_messages.py`).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

from ottla_core.kafka import messages, private_messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import KAFKAS, PRIVATE, Field, Schema, Struct, message_names, schema_of

CLIENT_ID: Final = "fuzz"
_REQUEST_CORRELATION_AT: Final = 8
_RESPONSE_CORRELATION_AT: Final = 4
_API_VERSIONS: Final = 18
_BOUNDARY_SHARE: Final = 0.15
_NULL_SHARE: Final = 0.1
_COUNTS: Final = (0, 1, 1, 1, 2, 3)
_BITS: Final = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_FLOAT: Final = struct.Struct(">d")
_UNKNOWN_TAG: Final = b"\xe7\x07\0"  # number 999, of no bytes


class Vocabulary(Protocol):
    """The values of fields. `topic_ids` and `strange_texts` are pools. In `validate_share` of the cases, a request that
    could change something only asks whether it may."""

    topic_ids: list[bytes]

    @property
    def strange_texts(self) -> Sequence[str]: ...
    @property
    def validate_share(self) -> float: ...
    @property
    def records(self) -> Callable[[random.Random], bytes]:
        """Return the generator of record batches."""
        ...

    def texts(self, name: str, entity: str) -> Sequence[str]:
        """Return what a text field of that name may hold; `entity` is what the definition says that it names."""
        ...

    def numbers(self, name: str, *, is_tame: bool) -> Sequence[int] | None:
        """Return the allowed values of a number of that name, or None if all are allowed."""
        ...


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
    correlation_at: int = _REQUEST_CORRELATION_AT

    def frame(self, correlation_id: int) -> bytes:
        """With the size and the correlation id that belong to it."""
        struct.pack_into(">i", self.data, 0, len(self.data) - 4)
        struct.pack_into(">i", self.data, self.correlation_at, correlation_id)
        return bytes(self.data)


@cache
def requests() -> dict[int, Schema]:
    """Return the schemas of requests by their API key."""
    return _schemas("request")


@cache
def responses() -> dict[int, Schema]:
    """Return the schemas of responses by their API key."""
    return _schemas("response")


def class_of(schema: Schema) -> type[Message]:
    """Return the class of a message."""
    name = schema.struct.name
    found: type[Message] = getattr(messages, name, None) or getattr(private_messages, name)
    return found


def _schemas(kind: str) -> dict[int, Schema]:
    schemas = [schema_of(name) for file in (KAFKAS, PRIVATE) for name in message_names(file)]
    return {schema.api_key: schema for schema in schemas if schema.kind == kind}


class Composer:
    """Writes requests and responses."""

    def __init__(self, world: Vocabulary, random_: random.Random) -> None:
        self._world: Final = world
        self._random: Final = random_
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
        schema = requests()[key]
        self._begin(Draft(key, version), schema, is_tame=is_tame, with_tags=with_tags)
        text = None if client_id is None else client_id.encode()
        self._draft.data += struct.pack(">ihhi", 0, key, version, 0)
        self._draft.data += struct.pack(">h", -1 if text is None else len(text)) + (text or b"")
        return self._finished(schema, has_tags=self._flexible)

    def response(self, key: int, version: int, *, is_tame: bool = False, with_tags: bool = False) -> Draft:
        """Return a response that the definitions allow. The header of a response to ApiVersions never has tags."""
        schema = responses()[key]
        draft = Draft(key, version, correlation_at=_RESPONSE_CORRELATION_AT)
        self._begin(draft, schema, is_tame=is_tame, with_tags=with_tags)
        draft.data += bytes(8)
        return self._finished(schema, has_tags=self._flexible and key != _API_VERSIONS)

    def _begin(self, draft: Draft, schema: Schema, *, is_tame: bool, with_tags: bool) -> None:
        self._flexible, self._tame = draft.version in schema.flexible, is_tame
        self._tag_bytes = _UNKNOWN_TAG if with_tags else b""
        self._draft = draft

    def _finished(self, schema: Schema, *, has_tags: bool) -> Draft:
        draft = self._draft
        if has_tags:
            self._tags(0)
        draft.body_at = len(draft.data)
        self._struct(schema.struct, draft.version)
        return draft

    # ---- fields ----------------------------------------------------------------------------------------------------

    def _struct(self, of: Struct, version: int) -> None:
        fields = [f for f in of.fields if version in f.versions]
        for each in fields:
            if version not in each.tagged:
                self._field(each, version)
        if self._flexible:
            chosen = [f for f in fields if version in f.tagged and self._random.random() < _NULL_SHARE]
            self._tags(len(chosen), lambda: [self._tagged(f, version) for f in chosen])

    def _field(self, of: Field, version: int) -> None:
        nullable = version in of.nullable
        is_null = nullable and self._random.random() < _NULL_SHARE
        if of.is_array:
            self._array(of, version, is_null=is_null, nullable=nullable)
        elif of.struct is not None:
            self._nullable_struct(of.struct, version, is_null=is_null, nullable=nullable)
        else:
            self._simple(of, is_null=is_null, nullable=nullable)

    def _array(self, of: Field, version: int, *, is_null: bool, nullable: bool) -> None:
        count = -1 if is_null else self._random.choice(self.counts(of.name))
        spot = self._count("count", count, 4, nullable=nullable)
        for _ in range(count):
            if of.struct is not None:
                self._struct(of.struct, version)
            else:
                self._simple(of, is_null=False, nullable=False)
        spot.content_end = len(self._draft.data)

    def _nullable_struct(self, of: Struct, version: int, *, is_null: bool, nullable: bool) -> None:
        if nullable:
            self._draft.data.append(0xFF if is_null else 1)
        if not is_null:
            self._struct(of, version)

    def _simple(self, of: Field, *, is_null: bool, nullable: bool) -> None:
        kind, data = of.kind, self._draft.data
        if kind in ("string", "bytes", "records"):
            text = None if is_null else self._content(of, kind)
            spot = self._count("length", -1 if text is None else len(text), 2 if kind == "string" else 4, nullable)
            data += text or b""
            spot.content_end = len(data)
        elif kind in _BITS:
            bits = _BITS[kind]
            value = self._number(of, bits)
            if of.name == "acks":
                self._draft.acks = value
            self._spot("number", (value % (1 << bits)).to_bytes(bits // 8, "big"), value, bits // 8)
        elif kind == "bool":
            data.append(self._flag(of.name))
        elif kind == "uuid":
            data += self._random.choice(self._world.topic_ids)
        elif kind == "float64":
            data += _FLOAT.pack(self._random.choice((0.0, 1.5)))
        else:
            raise AssertionError(f"nobody knows a {kind}")

    def _tagged(self, of: Field, version: int) -> None:
        """A tagged field that the definition knows."""
        inner = Composer(self._world, self._random)
        inner._flexible = True
        inner._field(of, version)
        self._draft.data += varint(of.tag) + varint(len(inner._draft.data)) + inner._draft.data

    def _tags(self, count: int, write: Callable[[], object] | None = None) -> None:
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

    def counts(self, name: str) -> Sequence[int]:
        """Return how many elements an array of that name may have."""
        return _COUNTS

    def _content(self, of: Field, kind: str) -> bytes:
        if kind == "records":
            return self._world.records(self._random)
        pool = self._world.texts(of.name, of.entity)
        if self._random.random() < _BOUNDARY_SHARE and not self._tame:
            pool = self._world.strange_texts
        return self._random.choice(pool).encode()

    def _number(self, of: Field, bits: int) -> int:
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
