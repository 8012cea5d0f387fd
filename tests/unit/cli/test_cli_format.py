"""The verbs of `ottla consume -f`."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from ottla.errors import ConfigError
from ottla_cli import format as verbs
from ottla_cli.format import compile_format


@dataclass(frozen=True)
class Told:
    topic: str = "orders"
    partition: int = 3
    offset: int = 42
    timestamp: int = 1_793_527_200_123
    key: bytes | None = b"eu"
    value: bytes | None = b'{"total":9.5}'
    headers: tuple[tuple[str, bytes | None], ...] = (("row", b"7"), ("row", None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t[%p]@%o %k %v\n", b'orders[3]@42 eu {"total":9.5}\n'),
        (r"%s\t%S|%K", b'{"total":9.5}\t13|2'),
        ("%d %T %d{s} %d{iso}", b"1793527200123 1793527200123 1793527200.123 2026-11-01T10:00:00.123Z"),
        ("%k{hex} %k{base64} %k{json} %v{json}", b'6575 ZXU= "eu" {"total":9.5}'),
        ("%h", b"row=7,row="),
        ("%h{json}", b'[{"key":"row","value":"7"},{"key":"row","value":null}]'),
        (r"100%% %%{x} \x41\0\\\r", b"100% %{x} A\0\\\r"),
        ("Größe", "Größe".encode()),
        ("", b""),
    ],
)
def test_verbs_and_escapes(text: str, expected: bytes) -> None:
    assert compile_format(text)(Told()) == expected


def test_null_is_nothing_in_text_null_in_json_and_minus_one_in_length() -> None:
    tombstone = Told(value=None, key=None, headers=())
    assert compile_format("<%k|%v|%v{hex}|%h>")(tombstone) == b"<|||>"
    assert compile_format("%k{json} %v{json} %K %V")(tombstone) == b"null null -1 -1"
    assert compile_format("%K %V")(Told(key=b"", value=b"")) == b"0 0"
    told = [json.loads(compile_format("json")(record)) for record in (tombstone, Told(key=b"", value=b""))]
    assert [(item["key"], item["value"]) for item in told] == [(None, None), ("", "")]


def test_bytes_come_out_as_they_are() -> None:
    binary = Told(value=bytes(range(256)))
    assert compile_format("%v")(binary) == bytes(range(256))
    assert compile_format("%v{hex}")(Told(value=b"\x00\xff")) == b"00ff"


def test_json_tells_everything_on_one_line() -> None:
    line = compile_format("json")(Told(key=b"\xff\x00"))
    assert line.count(b"\n") == 1
    told = json.loads(line)
    assert told == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_793_527_200_123,
        "key": "/wA=",
        "key_encoding": "base64",
        "value": {"total": 9.5},
        "headers": [{"key": "row", "value": "7"}, {"key": "row", "value": None}],
    }


def test_a_time_that_no_calendar_has_is_its_number() -> None:
    assert compile_format("%d{iso}")(Told(timestamp=-1)) == b"-1"
    assert compile_format("%d{iso}")(Told(timestamp=253_402_300_799_999)) == b"9999-12-31T23:59:59.999Z"
    assert compile_format("%d{iso}")(Told(timestamp=2**62)) == b"%d" % 2**62


@pytest.mark.parametrize("text", ["%x", "%", "abc%", "%v{yaml}", "%p{hex}", r"\q", "\\", r"\x4", "%1"])
def test_what_is_no_verb_is_named_with_what_there_is(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_format(text)
    assert caught.value.message.startswith("-f: ")
    assert "%v" in caught.value.hint or "%p" in caught.value.hint


def test_the_documented_table_has_every_verb_and_modifier() -> None:
    documented = verbs.__doc__ or ""
    for verb, modifiers in verbs._VERBS.items():
        assert f"%{verb}" in documented
        assert all(f"{{{name}}}" in documented for name in modifiers if name)
