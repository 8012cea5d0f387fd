r"""How `ottla consume` writes a record: the verbs of `-f`, in the manner of kcat and rpk.

| verb | stands for | modifiers |
|---|---|---|
| %t | topic | |
| %p | partition | |
| %o | offset | |
| %d, %T | timestamp, ms since the epoch | {iso} UTC to the ms, {s} seconds |
| %k | key | {hex}, {base64}, {json} |
| %v, %s | value | {hex}, {base64}, {json} |
| %K | length of the key in bytes, -1 for null | |
| %V, %S | length of the value in bytes, -1 for null | |
| %h | headers as name=value, joined by commas | {json} |
| %% | a percent sign | |

`\n`, `\t`, `\r`, `\0`, `\\` and `\x1f` are what they are in C. A null key, value or header is written as nothing, or
as null with {json}. Keys and values are written byte for byte; {json} writes a JSON object or array as it is, and other
text as a JSON string. On a terminal, control characters from a record are escaped: `\n`, `\x1b`.

`-f json` writes one JSON object a line, with every field. A key or value that is not UTF-8 is in base64, and
`key_encoding` or `value_encoding` says so.
"""

from __future__ import annotations

import contextlib
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from ottla.errors import config_error
from ottla.serdes.serdes import deserialize_auto, deserialize_json
from ottla_cli.json_text import encode_json
from ottla_core.text.printable import printable


class Readable(Protocol):
    """What is written of a record; key and value are bytes or None."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Piece = Callable[[Readable], bytes]

_TOKEN: Final = re.compile(
    r"(?P<percent>%%)"
    r"|%(?P<verb>[a-zA-Z])(?:\{(?P<modifier>[^}]*)\})?"
    r"|\\(?P<escape>x[0-9a-fA-F]{2}|[ntr0\\])"
    r"|(?P<text>[^%\\]+)"
    r"|[%\\].?",  # nothing that we know
    re.DOTALL,
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999


def compile_format(text: str, *, for_terminal: bool = False) -> Piece:
    """Return a function that turns a record into the bytes that `text` describes. Raises ConfigError for a bad verb.

    For a terminal, control characters from the record are escaped. Those of `text` itself are kept.
    """
    if text == "json":
        return lambda record: encode_json(as_json(record)).encode() + b"\n"
    pieces = [_piece(match, for_terminal=for_terminal) for match in _TOKEN.finditer(text)]
    return lambda record: b"".join([piece(record) for piece in pieces])


def as_json(record: Readable) -> dict[str, Any]:
    """The record as `-f json` and `-o json` write it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **json_field("key", record.key),
        **json_field("value", record.value),
        "headers": [{"key": name, **json_field("value", value)} for name, value in record.headers],
    }


def json_field(name: str, data: bytes | None) -> dict[str, Any]:
    """A key or value as JSON has it: text or JSON where it is that, else base64 and a field that says so."""
    if data is None:
        return {name: None}
    value = _shown(data)
    if isinstance(value, bytes):
        return {name: b64encode(value).decode(), f"{name}_encoding": "base64"}
    return {name: value}


def _piece(match: re.Match[str], *, for_terminal: bool) -> Piece:
    match match.lastgroup:
        case "text":
            return _constant(match[0].encode())
        case "percent":
            return _constant(b"%")
        case "escape":
            escape = match["escape"]
            return _constant(_ESCAPES.get(escape) or bytes.fromhex(escape[1:]))
        case "verb" | "modifier":
            piece = _verb(match["verb"], match["modifier"] or "", match[0])
            return _shown_by(piece) if for_terminal else piece
    raise config_error(f"-f: {match[0]!r} is not a format verb", hint=_hint())


def _shown_by(piece: Piece) -> Piece:
    return lambda record: printable(piece(record).decode(errors="backslashreplace")).encode()


def _constant(data: bytes) -> Piece:
    return lambda _: data


def _verb(verb: str, modifier: str, written: str) -> Piece:
    by_modifier = _VERBS.get(verb)
    if by_modifier is None:
        raise config_error(f"-f: {written!r} is not a format verb", hint=_hint())
    if modifier not in by_modifier:
        legal = ", ".join(f"%{verb}{{{name}}}" if name else f"%{verb}" for name in by_modifier)
        raise config_error(f"-f: {written!r} is not a format verb", hint=f"write {legal}")
    return by_modifier[modifier]


def _hint() -> str:
    return f"the verbs are %{', %'.join(_VERBS)} and %%; `ottla consume --help` explains them"


def _plain(data: bytes | None) -> bytes:
    return data or b""


def _hex(data: bytes | None) -> bytes:
    return _plain(data).hex().encode()


def _base64(data: bytes | None) -> bytes:
    return b64encode(_plain(data))


def _json(data: bytes | None) -> bytes:
    value = None if data is None else _shown(data)
    return encode_json(b64encode(value).decode() if isinstance(value, bytes) else value).encode()


def _shown(data: bytes) -> Any:
    """Return a dict or list if it is JSON for one, else text if it is UTF-8, else bytes."""
    if data[:1] in (b"{", b"["):
        with contextlib.suppress(ValueError, RecursionError):
            return deserialize_json(data)
    return deserialize_auto(data)


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _iso(timestamp_ms: int) -> bytes:
    """2026-11-01T10:00:00.000Z; the number if it is no time (-1 is Kafka's none) or beyond the calendar."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return b"%d" % timestamp_ms
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _headers(record: Readable) -> bytes:
    return b",".join(name.encode() + b"=" + _plain(value) for name, value in record.headers)


_KEY: Final[dict[str, Piece]] = {
    "": lambda r: r.key or b"",
    "hex": lambda r: _hex(r.key),
    "base64": lambda r: _base64(r.key),
    "json": lambda r: _json(r.key),
}
_VALUE: Final[dict[str, Piece]] = {
    "": lambda r: r.value or b"",
    "hex": lambda r: _hex(r.value),
    "base64": lambda r: _base64(r.value),
    "json": lambda r: _json(r.value),
}
_TIME: Final[dict[str, Piece]] = {
    "": lambda r: b"%d" % r.timestamp,
    "iso": lambda r: _iso(r.timestamp),
    "s": lambda r: b"%.3f" % (r.timestamp / 1000),
}
_VERBS: Final[dict[str, dict[str, Piece]]] = {
    "t": {"": lambda r: r.topic.encode()},
    "p": {"": lambda r: b"%d" % r.partition},
    "o": {"": lambda r: b"%d" % r.offset},
    "d": _TIME,
    "T": _TIME,
    "k": _KEY,
    "v": _VALUE,
    "s": _VALUE,
    "K": {"": lambda r: _length(r.key)},
    "V": {"": lambda r: _length(r.value)},
    "S": {"": lambda r: _length(r.value)},
    "h": {"": _headers, "json": lambda r: encode_json(as_json(r)["headers"]).encode()},
}
