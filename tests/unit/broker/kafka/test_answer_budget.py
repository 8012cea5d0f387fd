"""The bytes that private calls answer a connection: so many at once, then at a rate."""

from __future__ import annotations

import pytest

from ottla_broker.kafka.answer_budget import AT_ONCE_BYTES, BYTES_PER_S, AnswerBudget


def test_a_connection_waits_once_it_has_had_more_than_its_budget() -> None:
    budget = AnswerBudget()
    for at in (1_000.0, 1_000.0, 1_000.0, 1_000.0):
        assert budget.wait_s(at) == 0.0
        budget.pay(AT_ONCE_BYTES // 4, at)
    assert budget.wait_s(1_000.0) == 0.0
    budget.pay(3 * BYTES_PER_S, 1_000.0)
    assert budget.wait_s(1_000.0) == 3.0
    assert budget.wait_s(1_001.0) == pytest.approx(2.0)
    assert budget.wait_s(1_003.0) == 0.0


def test_a_rest_gives_a_connection_its_whole_budget_and_no_more() -> None:
    budget = AnswerBudget()
    budget.pay(2 * AT_ONCE_BYTES, 0.0)
    assert budget.wait_s(1e9) == 0.0
    budget.pay(AT_ONCE_BYTES, 1e9)
    assert budget.wait_s(1e9) == 0.0
    budget.pay(BYTES_PER_S, 1e9)
    assert budget.wait_s(1e9) == 1.0
