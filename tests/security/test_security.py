"""This is a short form of `make security`. What `make security` compares with Apache Kafka is in tests/compat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.regressions.judge import Judge, Verdict
from tests.security import calls, port_fuzz
from tests.security.burst import Burst, Phases
from tests.security.doors import found_in, fuzzed_broker
from tests.security.mutants import MUTANTS

_CASES = 1_500
_NOTICED = ("allow-before-deny", "service-role-ignored")


def test_each_method_between_services_is_open_to_its_roles_alone(tmp_path: Path) -> None:
    matrix = calls.run(tmp_path)
    assert matrix.wrong == []
    assert len(matrix.methods) == len(calls.METHODS)


def test_bytes_that_nobody_should_send_end_their_own_connection_alone(tmp_path: Path) -> None:
    with fuzzed_broker(tmp_path) as (stack, ports):
        for port, draws in zip(ports, port_fuzz.DRAWS, strict=True):
            told = asyncio.run(port_fuzz.fuzz(port, 7, _CASES, draws))
            assert told.wrong == []
            assert told.cases == _CASES
        assert found_in(stack) == []


@pytest.mark.parametrize(
    ("phases", "wrong"),
    [
        (Phases(1.0, 1.9, 2.0), []),
        (Phases(1.0, 2.3, 2.3), ["2.30 times as long beside the burst"]),
        (Phases(1.0, 1.5, 1.9), ["1.27 times as long as with the burst at another broker"]),
    ],
)
def test_a_burst_is_judged_by_its_cost_and_by_the_brokers_part_in_it(phases: Phases, wrong: list[str]) -> None:
    found = Burst(rounds=[phases]).wrong
    assert len(found) == len(wrong)
    assert all(text in each for text, each in zip(wrong, found, strict=True))


@pytest.mark.parametrize("name", _NOTICED)
def test_a_mistake_is_noticed(tmp_path: Path, name: str) -> None:
    mutant, judge = MUTANTS[name], Judge(tmp_path)
    assert judge.with_mends(mutant.tests)[0] is Verdict.PASSED
    assert judge.without_mend(mutant.story, mutant.tests)[0] is Verdict.FAILED
