"""The judge of `make faults-spark`, and its schedule: what a copy lacks is found, and every step has its kills."""

from __future__ import annotations

import pytest
from tests.faults.spark.__main__ import LEAST_IN_A_STEP, LEAST_KILLS, LEAST_TRANSACTIONAL_KILLS
from tests.faults.spark.copy import PARTITIONS, check, key_of
from tests.faults.spark.mutants import MUTANTS
from tests.faults.spark.schedule import (
    BROKER,
    DRIVER_STEPS,
    EXECUTOR,
    JVM,
    MOMENT,
    OUTAGES,
    PYTHON,
    TASK_STEPS,
    TREE,
    TXN,
    ZOMBIE,
    by_step,
    schedule,
    transactional_schedule,
)

Copy = list[tuple[bytes | None, bytes | None]]


def copied(written: int) -> Copy:
    return [(key_of(p, n), b"%d.%d" % (p, n)) for p in range(PARTITIONS) for n in range(written)]


def test_a_whole_copy_is_clean_and_repeats_are_counted() -> None:
    rows = copied(20)
    found = check([*rows[:30], *rows[10:]], 20)
    assert found.clean
    assert (found.rows, found.repeated, found.missing, found.examples) == (60, 20, 0, [])


def test_a_row_that_is_missing_is_named() -> None:
    rows = copied(20)
    found = check(rows[:27] + rows[28:-1], 20)
    assert not found.clean
    assert (found.missing, found.examples) == (2, ["1.7 is missing", "2.19 is missing"])


def test_rows_of_a_key_out_of_order_are_found() -> None:
    rows = copied(20)
    rows[3], rows[8] = rows[8], rows[3]
    found = check(rows, 20)
    assert (found.reordered, found.examples) == (1, ["0.3 came after 0.8"])
    rows = copied(20)
    rows[3], rows[4] = rows[4], rows[3]
    assert check(rows, 20).clean, "rows of different keys have no order"


@pytest.mark.parametrize(
    "row", [(key_of(0, 1), b"0.0"), (b"k", None), (key_of(0, 20), b"0.20"), (key_of(7, 1), b"7.1")]
)
def test_what_nobody_wrote_is_found(row: tuple[bytes | None, bytes | None]) -> None:
    found = check([*copied(20), row], 20)
    assert (found.foreign, found.clean) == (1, False)


@pytest.mark.parametrize("seed", range(1, 20))
def test_every_step_has_its_kills(seed: int) -> None:
    lives = schedule(seed)
    kills = [kill for life in lives for kill in life.kills]
    assert len(kills) >= LEAST_KILLS
    for step in (*DRIVER_STEPS, *TASK_STEPS):
        assert {TREE, PYTHON} <= {kill.victim for kill in kills if kill.step == step}
    assert {JVM, TREE, PYTHON, EXECUTOR} == {kill.victim for kill in kills}
    assert {kill.step for kill in kills if kill.victim == EXECUTOR} == set(TASK_STEPS)
    assert all(life.executors for life in lives for kill in life.kills if kill.victim == EXECUTOR)
    assert any(kill.step == MOMENT for kill in kills)
    assert all(life.kills[-1].ends_life and not any(k.ends_life for k in life.kills[:-1]) for life in lives)
    assert lives == schedule(seed)


@pytest.mark.parametrize("seed", range(1, 20))
def test_every_step_of_a_transaction_has_its_kills(seed: int) -> None:
    lives = transactional_schedule(seed)
    kills = [kill for life in lives for kill in life.kills]
    assert len(kills) >= LEAST_TRANSACTIONAL_KILLS
    assert min(by_step(kills).values()) >= LEAST_IN_A_STEP
    for step in by_step(kills):
        assert {TREE, PYTHON, TXN, BROKER} <= {kill.victim for kill in kills if kill.step == step}
    assert {JVM, EXECUTOR, ZOMBIE, *OUTAGES} <= {kill.victim for kill in kills}
    assert not any(kill.ends_life for life in lives for kill in life.kills[:-1])
    assert lives == transactional_schedule(seed)


def test_the_kills_of_a_planted_fault_are_dealt_to_lives_that_they_end() -> None:
    for mutant in MUTANTS.values():
        assert [kill for life in mutant.lives for kill in life.kills] == list(mutant.kills)
        assert not any(kill.ends_life for life in mutant.lives for kill in life.kills[:-1])
