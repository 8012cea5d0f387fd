"""What kcat is given on its stdin for each record, and what its JSON lines mean."""

from __future__ import annotations

import pytest
from peers.client import Rec
from peers.kcat import _fields, _header, _record
from peers.place import PeerError


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (Rec(b"k", b"v"), b"k|v"),
        (Rec(b"", b"v"), b"|v"),
        (Rec(None, b"v"), b"v"),
        (Rec(b"k", b""), b"k|"),
        (Rec(b"", b""), b"|"),
        (Rec(b"tombstone", None), b"tombstone|"),
        (Rec(None, None), b"|"),
    ],
    ids=str,
)
def test_a_record_for_its_stdin(record: Rec, fields: bytes) -> None:
    assert _fields(record, b"|") == fields


@pytest.mark.parametrize("record", [Rec(None, b""), Rec(b"", None)], ids=str)
def test_what_it_would_send_as_something_else_is_refused(record: Rec) -> None:
    with pytest.raises(PeerError, match="kcat can't send"):
        _fields(record, b"|")


def test_a_header_without_a_value_is_a_null_one() -> None:
    assert _header("n", None) == "n"
    assert _header("ü", b"") == "ü=".encode()
    assert _header("n", b"a=\xff") == b"n=a=\xff"


def test_a_line_of_json_with_any_bytes() -> None:
    line = b'{"ts":7,"headers":["a","1","a",null,"\xc3\xbc","\xff\\u0000"],"key":null,"payload":"\xfe\\u0001"}'
    assert _record(line) == Rec(None, b"\xfe\x01", (("a", b"1"), ("a", None), ("ü", b"\xff\0")), 7)
    assert _record(b'{"ts":7,"key":"k","payload":null}') == Rec(b"k", None, (), 7)
