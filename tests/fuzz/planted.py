"""`python -m tests.fuzz.planted NAME --node-id …`: a broker with one bug in its listener. The fuzzer must find it.

A fuzzer that never finds anything proves nothing. Each planted bug is one that such listeners have had: the broker is
the whole product but for that.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import ottla_broker.__main__
from ottla_broker.kafka import handling
from ottla_broker.kafka.network import connection, inbound
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire import frames
from ottla_core.event_loop import slices
from ottla_core.kafka.decoder_source import DecoderSource
from ottla_core.kafka.schema import Field
from ottla_core.kafka_formats import primitives

_LEAKED_BYTES: Final = 64 * 1024
_SKEWED_EACH: Final = 500


def _count_believed() -> None:
    """Room is made for as many elements as an array says that it has."""

    def array_or_null(self: primitives.Reader, element_min_bytes: int) -> int | None:
        count = self.varint() - 1 if self.flexible else self.int32()
        return None if count < 0 else len([None] * count)

    _replace(primitives.Reader, "array_or_null", array_or_null)


def _answer_of_another() -> None:
    """Now and then an answer has the correlation id of the request before it."""
    answer, count, last = frames.response, itertools.count(1), [0]

    def skewed(correlation_id: int, body: frames.Parts, *, tagged: bool) -> frames.Parts:
        last_id, last[0] = last[0], correlation_id
        return answer(correlation_id if next(count) % _SKEWED_EACH else last_id, body, tagged=tagged)

    _replace(frames, "response", skewed)


def _malformed_and_forgotten() -> None:
    """What can't be read is neither answered nor the end of its connection."""
    _replace(connection.KafkaConnection, "_refuse", lambda self, why: None)


def _text_as_it_comes() -> None:
    """Nobody minds that a text is not UTF-8, and the error goes where it likes."""
    _replace(primitives.Reader, "_text", lambda self, size: None if size < 0 else str(self.take(size), "utf-8"))


def _null_let_through() -> None:
    """What may not be null is not looked at."""
    unless_null = DecoderSource._unless_null

    def nullable(self: DecoderSource, field: Field, target: str, length: str) -> Any:
        return unless_null(self, field._replace(nullable=self.schema.versions), target, length)

    _replace(DecoderSource, "_unless_null", nullable)


def _connections_kept() -> None:
    """A connection that was cut for what it sent leaves its buffer behind."""
    kept: list[bytearray] = []
    lost = connection.KafkaConnection.connection_lost

    def connection_lost(self: Any, error: Exception | None) -> None:
        kept.append(bytearray(b"\1" * _LEAKED_BYTES))
        lost(self, error)

    _replace(connection.KafkaConnection, "connection_lost", connection_lost)


def _follower_served() -> None:
    """Whoever says to be a replica is believed, and read for as one."""
    read = fetch_wire.read

    def read_as_consumer(reader: primitives.Reader, version: int) -> Any:
        return replace(read(reader, version), replica_id=-1)

    _replace(fetch_wire, "read", read_as_consumer)


def _in_one_turn() -> None:
    """However many elements there are, nobody else is served before all are answered."""
    _replace(handling, "LARGE_BYTES", 1 << 30)
    _replace(handling, "LARGE_ELEMENTS", 1 << 30)
    _replace(slices.Slice, "is_over", property(lambda self: False))


def _announced_is_held() -> None:
    """A frame counts with the length that it has announced, as if it were there."""
    _replace(inbound.Inbound, "held_bytes", property(lambda self: self.whole_bytes))


PLANTED: Final = MappingProxyType(
    {
        "count-believed": _count_believed,
        "answer-of-another": _answer_of_another,
        "malformed-and-forgotten": _malformed_and_forgotten,
        "text-as-it-comes": _text_as_it_comes,
        "null-let-through": _null_let_through,
        "connections-kept": _connections_kept,
        "follower-served": _follower_served,
        "in-one-turn": _in_one_turn,
        "announced-is-held": _announced_is_held,
    }
)


def _replace(owner: Any, name: str, new: Any) -> None:
    """Raises AttributeError where the product has no such thing any more: a bug that changes nothing is none."""
    getattr(owner, name)
    setattr(owner, name, new)


def main(arguments: list[str]) -> int:
    name, *settings = arguments
    PLANTED[name]()
    sys.argv[1:] = settings
    return ottla_broker.__main__.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
