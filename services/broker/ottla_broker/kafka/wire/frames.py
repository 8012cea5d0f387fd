"""The headers of requests and responses.

    request:  size int32 | api key int16, version int16, correlation id int32, client id string [, tags] | body
    answer:   size int32 | correlation id int32 [, tags] | body

The size counts what follows it. The client id is spelled plain in every version. There are tags if the API's version is
flexible, but never in the response to ApiVersions (KIP-482, KIP-511). A token of a login, after version 0 of
SaslHandshake, is a size and the token, both ways.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla_broker.kafka.answer_budget import AnswerBudget
from ottla_broker.kafka.authorization.access import EVERYTHING, Access, KeptDecisions
from ottla_broker.listener_settings import ONLY_LISTENER
from ottla_broker.replication.response_memory import UNBOUNDED, ConnectionRoom
from ottla_core.kafka_formats.primitives import MalformedError, Reader
from ottla_core.security.login import Login
from ottla_core.security.principal import ANONYMOUS

SIZE_BYTES: Final = 4
HEAD_BYTES: Final = 8
"""Size, key and version are the bytes that are needed before anything can be decided."""

TOKEN_KEY: Final = 2**15
"""In the place of a key, for a frame that is a token of a login and has no header. No header can say this."""

OTTLAS_NAME: Final = "ottla"
"""The name by which ottla's clients call themselves in ApiVersions."""

_HEAD: Final = struct.Struct(">ihh")
_CORRELATION: Final = struct.Struct(">i")
_RESPONSE: Final = struct.Struct(">ii")
_SIZE: Final = struct.Struct(">i")

Parts = list[bytes | bytearray | memoryview]
"""A response's body in pieces, so that records need not be copied into one."""


class Head(NamedTuple):
    """The start of a frame. `size_bytes` does not count the four bytes of the size itself."""

    size_bytes: int
    key: int
    version: int


@dataclass(frozen=True, slots=True)
class KafkaContext:
    """One request as a handler sees it. `body` is valid until the handler first awaits, and `access` says what the
    client may do."""

    version: int
    correlation_id: int
    client_id: str
    body: Reader
    caller: Caller
    access: Access = EVERYTHING

    def kept(self) -> KafkaContext:
        """Return a copy whose body stays valid."""
        body = Reader(memoryview(bytes(self.body.data)), self.body.at, flexible=self.body.flexible)
        return replace(self, body=body)


class Announcement:
    """The name of the client's software, if the client has given one in ApiVersions (KIP-511)."""

    __slots__ = ("software",)

    def __init__(self) -> None:
        self.software = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a connection, the local address that it has connected to, and the listener.

    `room` is the memory that its responses may take. `login` is None where the listener expects none. `certified` is
    the principal by the client's certificate, which counts only there. `answers` is its budget for private calls.
    """

    client_host: str
    dialled_host: str
    listener: str = ONLY_LISTENER
    room: ConnectionRoom = field(default=UNBOUNDED, compare=False)
    announcement: Announcement = field(default_factory=Announcement, compare=False)
    decisions: KeptDecisions = field(default_factory=KeptDecisions, compare=False)
    answers: AnswerBudget = field(default_factory=AnswerBudget, compare=False)
    login: Login | None = field(default=None, compare=False)
    certified: str = ANONYMOUS

    @property
    def principal(self) -> str:
        """This is who the client is, as Kafka spells it: the user who has logged in, the subject of the certificate
        that the client has shown, or User:ANONYMOUS."""
        return self.certified if self.login is None else self.login.principal

    def announce(self, software: str) -> None:
        """Note that ApiVersions was served, to a client whose software has this name."""
        self.announcement.software = software
        if self.login is not None:
            self.login.on_versions_shown()

    @property
    def is_ottlas(self) -> bool:
        """It tells whether the client calls itself a client of ottla. Any client can, so this gives access only to what
        is public."""
        return self.announcement.software == OTTLAS_NAME


def read_head(data: memoryview, at: int = 0) -> Head:
    """Return the first eight bytes at `at`, which are there."""
    return Head._make(_HEAD.unpack_from(data, at))


def read_token_head(data: memoryview, at: int = 0) -> Head:
    """Return the size at `at`, which is there, of a token."""
    return Head(int(_SIZE.unpack_from(data, at)[0]), TOKEN_KEY, 0)


def read_request(
    frame: memoryview, version: int, caller: Caller, *, flexible: bool, access: Access = EVERYTHING
) -> KafkaContext:
    """Read the header of the request in a whole frame. Raises MalformedError."""
    reader = Reader(frame, HEAD_BYTES)
    (correlation_id,) = reader.unpack(_CORRELATION)
    client_id = reader.plain_string() or ""
    reader.flexible = flexible
    reader.pass_tags()
    return KafkaContext(version, correlation_id, client_id, reader, caller, access)


def read_correlation_id(frame: memoryview) -> int:
    try:
        return int(_CORRELATION.unpack_from(frame, HEAD_BYTES)[0])
    except struct.error:
        raise MalformedError("the request ends in the middle of its header") from None


def response(correlation_id: int, body: Parts, *, tagged: bool) -> Parts:
    """Return the frame of a response. If it is `tagged`, its header ends with an empty list of tags."""
    size_bytes = sum(map(len, body)) + _CORRELATION.size + tagged
    head = _RESPONSE.pack(size_bytes, correlation_id)
    return [head + b"\0" if tagged else head, *body]


def token(body: bytes) -> Parts:
    """Return the frame of a response to a token."""
    return [_SIZE.pack(len(body)), body]
