"""Gathered calls as bytes: many frames in a message, each of them one call or one response (docs/adr/0027).

The contract declares the messages with the types of the frames. Here they are joined and taken apart as `Frames`, whose
wire format is the same, with each frame still encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from ottla_core.errors import OttlaError
from ottla_core.rpc.frames import snake_case
from ottla_core.rpc.status import error_message
from ottla_proto import contracts
from ottla_proto.common_pb2 import Frames, ResponseFrames
from ottla_proto.contracts import GatheredCalls, Method

_BODY: Final = "body"


class CallFrames:
    """The frames of one contract's gathered calls. Their constructors take a body by its method's name."""

    def __init__(self, gathered: GatheredCalls) -> None:
        self.call_type: Final[Any] = gathered.call
        self.response_type: Final[Any] = gathered.response
        self._fields: Final = {method.name: field for field, method in carried_methods(gathered).items()}

    def carries(self, method: Method[Any, Any]) -> bool:
        return method.name in self._fields

    def call(self, number: int, timeout_ms: int, method: Method[Any, Any], request: Message) -> bytes:
        frame = self.call_type(correlation_id=number, timeout_ms=timeout_ms, **{self._fields[method.name]: request})
        encoded: bytes = frame.SerializeToString()
        return encoded

    def response(self, number: int, field: str, response: Message) -> bytes:
        encoded: bytes = self.response_type(correlation_id=number, **{field: response}).SerializeToString()
        return encoded

    def not_started(self, number: int, error: OttlaError) -> bytes:
        frame = self.response_type(correlation_id=number, not_started=error_message(error))
        encoded: bytes = frame.SerializeToString()
        return encoded


def body_of(frame: Any) -> tuple[str, Any] | None:
    """Return the name and the value of a frame's body, or None if this release does not know the body."""
    name = frame.WhichOneof(_BODY)
    return None if name is None else (name, getattr(frame, name))


def join_calls(frames: Sequence[bytes], cancelled: Sequence[int]) -> bytes:
    return Frames(frames=frames, cancelled=cancelled).SerializeToString()


def join_responses(frames: Sequence[bytes], last_started: int | None = None) -> bytes:
    return ResponseFrames(frames=frames, last_started=last_started).SerializeToString()


def carried_methods(gathered: GatheredCalls) -> Mapping[str, Method[Any, Any]]:
    """Return the methods that the frames have a body for, by the name of the body's field.

    Raises ValueError if a body is of no method of the contract, or calls and responses do not match.
    """
    contract = getattr(contracts, gathered.service)
    methods = {snake_case(m.name): m for m in vars(contract).values() if isinstance(m, Method)}
    requests, responses = (_bodies(frame) for frame in (gathered.call, gathered.response))
    known = {name: methods[name] for name in requests if name in methods}
    if requests != {name: method.request.DESCRIPTOR for name, method in known.items()}:
        raise ValueError(f"{gathered.path}: a call has a body that is of no method of {gathered.service}")
    if responses != {name: method.response.DESCRIPTOR for name, method in known.items()}:
        raise ValueError(f"{gathered.path}: responses have other bodies than the calls")
    return known


def _bodies(frame: type[Message]) -> dict[str, Any]:
    return {field.name: field.message_type for field in frame.DESCRIPTOR.oneofs_by_name[_BODY].fields}
