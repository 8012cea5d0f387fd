"""Tens of thousands of messages that nobody should send: each is answered, or is one clean error, and none logs in."""

from __future__ import annotations

from tests.security import exchange_fuzz

CASES = 24_000


def test_no_message_of_scram_is_an_exception_of_another_kind_or_logs_in() -> None:
    told = exchange_fuzz.scram(11, CASES)
    assert len(told) > 12, told
    assert told[exchange_fuzz.RESPONSE] > 500


def test_no_message_of_plain_is_an_exception_of_another_kind_or_logs_in() -> None:
    told = exchange_fuzz.plain(12, CASES)
    assert len(told) >= 4, told
