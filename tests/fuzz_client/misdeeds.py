"""What a hostile server does instead of one response. Each misdeed is a list of acts, and knows what it deserves.

Pure: the server carries the acts out.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tests.fuzz.lies import BOMBS, HARMLESS, LIES, Lie
from tests.fuzz.messages import Composer
from tests.fuzz_client.vocabulary import PASSWORD, USER, HonestComposer, HonestVocabulary, OddVocabulary

from ottla.client.kafka.apis import SASL_AUTHENTICATE
from ottla_core.kafka import codec
from ottla_core.kafka.messages import ResponseHeader, SaslAuthenticateResponse

_INT32_MAX: Final = 2**31 - 1
_MIB: Final = 1 << 20
_DRIPPED_BYTES: Final = 3_000
_DRIP_S: Final = 0.03
_LATE_S: Final = 0.4
"""Longer than the timeout of a call that has to wait for its deadline."""
_HEAD: Final = struct.Struct(">ii")
_MOST_ARRIVING: Final = 64 * 1024


class End(Enum):
    """How a misdeed ends. Without an end, the server goes on honestly on this connection."""

    CLOSE = "the connection is closed"
    RESET = "the connection is reset"
    HOLD = "nothing comes any more"


Act: TypeAlias = bytes | float | End
"""Bytes to send, seconds to wait, or an end."""


class Moment(NamedTuple):
    """The request to answer, and the honest response to it."""

    key: int
    version: int
    correlation_id: int
    honest: bytes
    port: int


class Expect(Enum):
    """What the caller may get."""

    RESPONSE = "a response"
    ERROR = "an error"
    EITHER = "a response or an error"


class Where(Flag):
    """Which responses a misdeed may replace."""

    HANDSHAKE = auto()
    LOGIN = auto()
    CALL = auto()
    ANY = HANDSHAKE | LOGIN | CALL


@dataclass(frozen=True, slots=True)
class Misdeed:
    """`words` is a pattern that the error matches. If it `waits`, the caller may get nothing before its deadline. A
    misdeed that `speaks_well` may be a response that can be decoded, so its error may be the broker's own. A `lasting`
    one is repeated each time. The client believes a `kept` one as long as the connection goes on."""

    acts: Callable[[Moment, random.Random], Sequence[Act]]
    expect: Expect
    words: str = ""
    where: Where = Where.ANY
    waits: bool = False
    speaks_well: bool = False
    lasting: bool = False
    kept: bool = False
    weight: int = 4


# ---- the connection --------------------------------------------------------------------------------------------------


def _cut(end: End) -> Callable[[Moment, random.Random], Sequence[Act]]:
    return lambda moment, chance: [moment.honest[: chance.randrange(len(moment.honest))], end]


def _silent(moment: Moment, chance: random.Random) -> Sequence[Act]:
    return [End.HOLD]


def _pieces(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Cut the response into single bytes, with a pause here and there so that they do not arrive together."""
    acts: list[Act] = []
    for at in range(len(moment.honest)):
        acts.append(moment.honest[at : at + 1])
        if chance.random() < 4 / len(moment.honest):
            acts.append(0.001)
    return acts


def _drip(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Send a response that will never be complete in time."""
    head = _HEAD.pack(_DRIPPED_BYTES, moment.correlation_id)
    acts: list[Act] = []
    for byte in head + bytes(60):
        acts += [bytes([byte]), _DRIP_S]
    return [*acts, End.HOLD]


def _late(moment: Moment, chance: random.Random) -> Sequence[Act]:
    return [_LATE_S, moment.honest]


def _http(moment: Moment, chance: random.Random) -> Sequence[Act]:
    status = chance.choice(("400 Bad Request", "200 OK", "505 HTTP Version Not Supported"))
    page = b"<html>" * chance.randrange(200)
    head = f"HTTP/1.{chance.randrange(2)} {status}\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    return [head + page, chance.choice((End.CLOSE, End.RESET, End.HOLD))]


def _tls_alert(moment: Moment, chance: random.Random) -> Sequence[Act]:
    alert = bytes([0x15, 3, chance.randrange(5), 0, 2, 2, chance.randrange(120)])
    return [alert, chance.choice((End.CLOSE, End.HOLD))]


def _http2(moment: Moment, chance: random.Random) -> Sequence[Act]:
    settings = bytes(6 * chance.randrange(6))
    return [len(settings).to_bytes(3, "big") + b"\x04\x00" + bytes(4) + settings, chance.choice((End.CLOSE, End.HOLD))]


def _noise(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Send bytes of no known protocol. The first eight are not the head of a frame."""
    first = bytes([chance.randrange(0x20, 0x7F)])
    return [first + chance.randbytes(chance.choice((7, 8, 100, 5_000))), chance.choice((End.CLOSE, End.HOLD))]


# ---- the frame -------------------------------------------------------------------------------------------------------


def _withheld(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Announce a length, and send a part of it. A long response must cost only the memory for what has arrived."""
    length = chance.choice((10, 1_000, 200_000, 15 * _MIB, 30 * _MIB, 100 * _MIB))
    arriving = chance.choice((0, 1, 100, _MOST_ARRIVING))
    return [_HEAD.pack(length, moment.correlation_id) + bytes(min(arriving, length - 5)), End.HOLD]


def _no_length(moment: Moment, chance: random.Random) -> Sequence[Act]:
    length = chance.choice((-(2**31), -1, 0, 3, _INT32_MAX, 200 * _MIB))
    return [_HEAD.pack(length, moment.correlation_id) + moment.honest[8:]]


def _wrong_id(moment: Moment, chance: random.Random) -> Sequence[Act]:
    off = chance.choice((1, -1, 2, 1_000, -1_000, 2**30))
    wrong = (moment.correlation_id + off) % 2**31
    wrong = chance.choice((wrong, wrong, -1, -(2**31)))
    return [moment.honest[:4] + struct.pack(">i", wrong) + moment.honest[8:]]


def _second(moment: Moment, chance: random.Random) -> Sequence[Act]:
    return [moment.honest + moment.honest]


def _unsolicited(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Send the response, and then bytes that nobody has asked for."""
    return [moment.honest + _HEAD.pack(100, moment.correlation_id + 1) + chance.randbytes(chance.randrange(200))]


def _half_a_head(moment: Moment, chance: random.Random) -> Sequence[Act]:
    return [moment.honest + chance.randbytes(chance.randrange(1, 8)), End.HOLD]


# ---- the message -----------------------------------------------------------------------------------------------------


def _told(lie: Lie) -> Callable[[Moment, random.Random], Sequence[Act]]:
    return lambda moment, chance: _with(lie, Composer(HonestVocabulary(moment.port), chance), moment, chance)


def _harmless(lie: Lie) -> Callable[[Moment, random.Random], Sequence[Act]]:
    """Tell a lie that changes nothing, in a response that would be good without it."""
    return lambda moment, chance: _with(lie, HonestComposer(moment.port, chance), moment, chance)


def _with(lie: Lie, compose: Composer, moment: Moment, chance: random.Random) -> Sequence[Act]:
    draft = compose.response(moment.key, moment.version, is_tame=True)
    lie(draft, chance)
    return [draft.frame(moment.correlation_id)]


def _odd_values(moment: Moment, chance: random.Random) -> Sequence[Act]:
    draft = Composer(OddVocabulary(moment.port), chance).response(moment.key, moment.version)
    return [draft.frame(moment.correlation_id)]


def _nothing(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Send a frame without a body, or with a few bytes of one."""
    body = bytes(chance.randrange(3)) if chance.random() < 0.7 else chance.randbytes(chance.randrange(40))
    return [_HEAD.pack(4 + len(body), moment.correlation_id) + body]


# ---- the login -------------------------------------------------------------------------------------------------------


def _repeats_password(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Reject the login, and say which password it was."""
    if moment.key != SASL_AUTHENTICATE.key:
        return [moment.honest]
    said = chance.choice((PASSWORD, f"\0{USER}\0{PASSWORD}", f"'{PASSWORD}' is wrong", PASSWORD * 100))
    rejection = SaslAuthenticateResponse(error_code=58, error_message=said)
    body = codec.encode(rejection, moment.version)
    header = codec.encode(
        ResponseHeader(correlation_id=moment.correlation_id), SASL_AUTHENTICATE.response_header(moment.version)
    )
    return [struct.pack(">i", len(header) + len(body)) + header + body]


# ---- the handshake ---------------------------------------------------------------------------------------------------


def _versions(code: int, ranges: Sequence[tuple[int, int, int]], moment: Moment, version: int) -> bytes:
    """Return a response to ApiVersions, in the layout of one of its versions."""
    if version >= 3:
        body = struct.pack(">h", code) + _varint(len(ranges) + 1)
        body += b"".join(struct.pack(">hhh", *each) + b"\0" for each in ranges) + bytes(4) + b"\0"
    else:
        body = struct.pack(">hi", code, len(ranges)) + b"".join(struct.pack(">hhh", *each) for each in ranges)
        body += bytes(4) if version >= 1 else b""
    return _HEAD.pack(4 + len(body), moment.correlation_id) + body


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def _refused_for_ever(moment: Moment, chance: random.Random) -> Sequence[Act]:
    ranges = chance.choice(([], [(18, 0, 5)], [(18, 0, 3)], [(18, 9, 9)], [(18, -1, -1)], [(18, 0, 32_767)]))
    return [_versions(35, ranges, moment, 0)]


def _refused(moment: Moment, chance: random.Random) -> Sequence[Act]:
    code = chance.choice((-1, 1, 7, 13, 29, 31, 42, 58, 999, 32_767, -32_768))
    return [_versions(code, [(18, 0, 5)], moment, moment.version)]


def _no_versions(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Serve nothing that anyone could call."""
    served: Callable[[int], tuple[int, int, int]] = chance.choice(
        (
            lambda key: (key, -5, -1),
            lambda key: (key, 7, 3),
            lambda key: (key, 30_000, 32_767),
            lambda key: (key, -32_768, -32_768),
            lambda key: (key + 1_000, 0, 20),
            lambda key: (-1 - key, 0, 20),
        )
    )
    ranges = [served(key) for key in range(chance.choice((0, 1, 100)))]
    return [_versions(0, ranges, moment, moment.version)]


def _odd_versions(moment: Moment, chance: random.Random) -> Sequence[Act]:
    """Serve everything, among ranges that make no sense, and some APIs twice."""
    ends = (-32_768, -1, 0, 1, 5, 12, 32_767)
    ranges = [(key, chance.choice(ends), chance.choice(ends)) for key in range(-3, 100)]
    ranges += [(key, 0, chance.randrange(20)) for key in range(100) if chance.random() < 0.8]
    chance.shuffle(ranges)
    return [_versions(0, ranges * chance.choice((1, 1, 20)), moment, moment.version)]


_HARMLESS_LIES: Final = {
    f"lie: {name}": Misdeed(_harmless(lie), Expect.RESPONSE, where=Where.CALL, speaks_well=True)
    for name, lie in HARMLESS.items()
}
_LIES: Final = {f"lie: {name}": Misdeed(_told(lie), Expect.EITHER, speaks_well=True) for name, lie in LIES.items()}
_BOMBS: Final = {
    f"lie: {name}": Misdeed(_told(lie), Expect.EITHER, speaks_well=True, weight=1) for name, lie in BOMBS.items()
}

MISDEEDS: Final = MappingProxyType(
    {
        "none": Misdeed(lambda moment, chance: [moment.honest], Expect.RESPONSE, weight=2),
        "closes": Misdeed(_cut(End.CLOSE), Expect.ERROR, "closed the connection|onnection reset", weight=12),
        "resets": Misdeed(_cut(End.RESET), Expect.ERROR, weight=8),
        "is silent": Misdeed(_silent, Expect.ERROR, waits=True, weight=2),
        "in pieces": Misdeed(_pieces, Expect.RESPONSE),
        "drips": Misdeed(_drip, Expect.ERROR, waits=True, weight=2),
        "is late": Misdeed(_late, Expect.EITHER, waits=True, weight=2),
        "HTTP": Misdeed(_http, Expect.ERROR, "it is an HTTP server", where=Where.HANDSHAKE, weight=8),
        "TLS": Misdeed(_tls_alert, Expect.ERROR, "it expects TLS|in time", where=Where.HANDSHAKE, waits=True, weight=6),
        "HTTP/2": Misdeed(_http2, Expect.ERROR, "it speaks HTTP/2", where=Where.HANDSHAKE, weight=6),
        "noise": Misdeed(_noise, Expect.ERROR, "no response to this call has that length"),
        "withholds": Misdeed(_withheld, Expect.ERROR, waits=True, weight=6),
        "no length": Misdeed(_no_length, Expect.ERROR, "no response to this call has that length"),
        "wrong id": Misdeed(_wrong_id, Expect.ERROR, "was next in order", weight=8),
        "second response": Misdeed(_second, Expect.EITHER),
        "unsolicited": Misdeed(_unsolicited, Expect.EITHER, waits=True, weight=2),
        "half a head": Misdeed(_half_a_head, Expect.EITHER, waits=True, weight=2),
        "odd values": Misdeed(_odd_values, Expect.EITHER, speaks_well=True, where=Where.CALL, weight=40),
        "odd values for ever": Misdeed(
            _odd_values, Expect.EITHER, speaks_well=True, where=Where.CALL, lasting=True, weight=8
        ),
        "nothing": Misdeed(_nothing, Expect.EITHER, speaks_well=True),
        "refuses for ever": Misdeed(
            _refused_for_ever, Expect.ERROR, "Kafka's error 35", where=Where.HANDSHAKE, lasting=True
        ),
        "refuses": Misdeed(_refused, Expect.ERROR, "it refused ApiVersions", where=Where.HANDSHAKE),
        "no versions": Misdeed(_no_versions, Expect.ERROR, "this client can't call", where=Where.HANDSHAKE, kept=True),
        "odd versions": Misdeed(_odd_versions, Expect.EITHER, where=Where.HANDSHAKE, kept=True, weight=8),
        "repeats the password": Misdeed(_repeats_password, Expect.EITHER, where=Where.LOGIN, weight=40),
        **_HARMLESS_LIES,
        **_LIES,
        **_BOMBS,
    }
)
