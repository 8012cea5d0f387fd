"""The error codes are Kafka's, as kio has them. `tests/compat/test_messages.py` compares those that kio lacks, too."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioCode

from ottla_core.errors import ErrorCode, is_retriable

NEWER = {134, 135, 136}
"""Codes of Kafka 4.4, which kio does not have yet."""


def test_error_codes_have_kafkas_names_and_flags() -> None:
    ours = {int(code): (code.name, is_retriable(code)) for code in ErrorCode if code < ErrorCode.OFFSET_MISMATCH}
    ours[ErrorCode.BROKER_NOT_AVAILABLE] = ("BROKER_NOT_AVAILABLE", False)  # retriable between our own services
    theirs = {int(code): (code.name.upper(), code.retriable) for code in KioCode}
    assert {code: ours[code] for code in ours.keys() - NEWER} == {code: theirs[code] for code in ours.keys() - NEWER}
    assert set(range(128, 137)) <= ours.keys()
