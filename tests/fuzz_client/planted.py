"""`python -m tests.fuzz_client.planted NAME`: the transport with one bug, which a run must find.

A fuzzer that never finds anything proves nothing. Each planted bug is one that such clients have had.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tests.fuzz_client.case import cases
from tests.fuzz_client.exchanges import LEVELS
from tests.fuzz_client.report import print_summary, summary
from tests.fuzz_client.run import run

from ottla.client.kafka import call, connection, exchange, frames, peer
from ottla.client.kafka.sasl import plain
from ottla.client.kafka.sockets import line, network
from ottla.errors import OttlaError
from ottla_core.kafka_formats.primitives import MalformedError

CASES: Final = 6_000
_LEAKED_BYTES: Final = 64 * 1024


class Bug(NamedTuple):
    """A run finds the bug by findings of this `kind`."""

    plant: Callable[[], None]
    kind: str


def _length_believed() -> None:
    """Allocate as many bytes as a response announces."""
    init = frames.FrameReader.__init__

    def initialize(self: Any, check: Callable[[int, int], None]) -> None:
        def check_and_make_room(length: int, correlation_id: int) -> None:
            check(length, correlation_id)
            self.room = b"\1" * length

        init(self, check_and_make_room)

    _replace(frames.FrameReader, "__init__", initialize)


def _decode_error_escapes() -> None:
    """Raise the decoder's own error if a response can't be decoded."""
    response_in = frames.response_in

    def decoded(*arguments: Any) -> Any:
        try:
            return response_in(*arguments)
        except MalformedError as error:
            raise IndexError(str(error)) from None

    _replace(call, "response_in", decoded)


def _nonsense_escapes() -> None:
    """Raise what a reader raises if the values of a response make no sense."""
    _replace(exchange.Exchange, "result", lambda self, response, *_: self._meaning(response, {}))


def _deadline_not_kept() -> None:
    _replace(connection.KafkaConnection, "on_time", lambda self, now: None)


def _id_not_checked() -> None:
    """Take any response as the answer to the oldest call."""
    check = connection.KafkaConnection._check

    def check_length(self: Any, length: int, correlation_id: int) -> None:
        oldest = self._calls.oldest
        check(self, length, correlation_id if oldest is None else self._calls.correlation_id(oldest.number))

    _replace(connection.KafkaConnection, "_check", check_length)


def _stranger_not_named() -> None:
    _replace(connection, "stranger", lambda first: "")


def _socket_kept() -> None:
    """Leave the socket of a line open when the line is over."""
    kept, end = [], line.Line._end

    def end_without(self: Any, error: OttlaError) -> None:
        if self._socket is not None:
            self._network.unregister(self._socket)
            kept.append(self._socket)
            self._socket = None
        end(self, error)

    _replace(line.Line, "_end", end_without)


def _thread_kept() -> None:
    """Let the network's thread go on without lines."""
    _replace(network.Network, "_goes_on", lambda self: True)


def _told_twice() -> None:
    """Let a stream that breaks report also calls that were answered."""
    on_ended = peer.KafkaStream._on_ended

    def all_of_them(self: Any, error: OttlaError) -> None:
        self._open.update(dict.fromkeys(range(1, next(self._numbers))))
        on_ended(self, error)

    _replace(peer.KafkaStream, "_on_ended", all_of_them)


def _connections_kept() -> None:
    """Keep some memory of a connection that has ended."""
    kept, end = [], connection.KafkaConnection._end

    def end_and_keep(self: Any, *arguments: Any) -> None:
        kept.append(bytearray(b"\1" * _LEAKED_BYTES))
        end(self, *arguments)

    _replace(connection.KafkaConnection, "_end", end_and_keep)


def _password_told() -> None:
    """Repeat what the broker says of a rejected login, whatever it is."""
    _replace(plain.PlainConversation, "redacted", lambda self, text: text)


PLANTED: Final = MappingProxyType(
    {
        "length-believed": Bug(_length_believed, "growth"),
        "decode-error-escapes": Bug(_decode_error_escapes, "crash"),
        "nonsense-escapes": Bug(_nonsense_escapes, "crash"),
        "deadline-not-kept": Bug(_deadline_not_kept, "hang"),
        "id-not-checked": Bug(_id_not_checked, "fault"),
        "stranger-not-named": Bug(_stranger_not_named, "fault"),
        "socket-kept": Bug(_socket_kept, "leak"),
        "thread-kept": Bug(_thread_kept, "leak"),
        "told-twice": Bug(_told_twice, "fault"),
        "password-told": Bug(_password_told, "fault"),
        "connections-kept": Bug(_connections_kept, "growth"),
    }
)


def _replace(owner: Any, name: str, new: Any) -> None:
    """Raises AttributeError if the transport no longer has the attribute, because a bug that changes nothing is not a
    bug."""
    getattr(owner, name)
    setattr(owner, name, new)


def main(arguments: list[str]) -> int:
    name, seed = arguments
    bug = PLANTED[name]
    bug.plant()
    outcome = run(cases(LEVELS, CASES, int(seed)), stop_at=bug.kind, show=print)
    print_summary(summary(outcome, seed=int(seed), planted=0, planted_found=0))
    return 1 if outcome.count(PLANTED[name].kind) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
