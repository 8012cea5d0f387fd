"""Whether an answer is well formed under its API and version, to the last byte; and what it says where that matters.

kio reads it, which shares nothing with what the broker writes it by (`kio_schemas`).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial.errors import OutOfBoundValue
from tests.fuzz.cases import API_VERSIONS, FETCH, PRODUCE, Case
from tests.fuzz.kio_schemas import response_schema

_DESCRIBE_TRANSACTIONS: Final = 65
_CORRELATION: Final = struct.Struct(">i")


def read_correlation_id(frame: bytes) -> int:
    return int(_CORRELATION.unpack_from(frame)[0])


def fault_of(case: Case, frame: bytes) -> str:
    """What is wrong with the answer to `case`; "" where nothing is."""
    read, body_at = _reader(case.key, case.answer_version)
    try:
        answer, size_bytes = read(frame, body_at)
    except Exception as error:
        # Kafka's time of a transaction that has not begun, -1, is none to kio.
        if case.key == _DESCRIBE_TRANSACTIONS and isinstance(error, OutOfBoundValue):
            return ""
        return f"an answer that can't be read: {error!r}"
    if body_at + size_bytes != len(frame):
        return f"an answer of {len(frame)} bytes, of which {body_at + size_bytes} mean something"
    if body_at > _CORRELATION.size and frame[_CORRELATION.size]:
        return "an answer with tags in its header"
    if case.must_refuse and not _all_refused(case.key, answer):
        return "what has to be refused was taken"
    return ""


@cache
def _reader(key: int, version: int) -> tuple[Any, int]:
    """What reads the body, and where it begins: behind the tags of the header, where there are any."""
    schema = response_schema(key, version)
    return entity_reader(schema), _CORRELATION.size + (schema.__flexible__ and key != API_VERSIONS)


def _all_refused(key: int, answer: Any) -> bool:
    """No partition of a produce or a fetch has anything but an error."""
    if key == PRODUCE:
        return all(p.error_code for t in answer.responses for p in t.partition_responses)
    assert key == FETCH, "nothing else is to be refused"
    return all(p.error_code and not p.records for t in answer.responses for p in t.partitions)
