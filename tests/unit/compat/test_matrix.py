"""The compatibility matrix: what counts as green, and what becomes of clients that can't be had."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from peers.client import Client
from peers.place import PeerError
from tests.compat import cells
from tests.compat.clients import CLIENTS, Listed
from tests.compat.matrix import Matrix


def matrix_of(**outcomes: list[tuple[str, str]]) -> Matrix:
    """By the cell's name, what was reported of it: steps with their outcome."""
    matrix = Matrix()
    mark = SimpleNamespace(args=("acks", "java"))
    items: list[Any] = [SimpleNamespace(nodeid=node, get_closest_marker=lambda _: mark) for node in outcomes]
    items.append(SimpleNamespace(nodeid="", get_closest_marker=lambda _: None))
    matrix.pytest_collection_modifyitems(items)
    for node, reported in outcomes.items():
        for step, outcome in reported:
            matrix.pytest_runtest_logreport(pytest.TestReport(node, ("", 0, ""), {}, outcome, None, step))  # type: ignore[arg-type]  # a report as pytest makes it
    return matrix


PASSED = [("setup", "passed"), ("call", "passed"), ("teardown", "passed")]


@pytest.mark.parametrize(
    ("reported", "colour"),
    [
        (PASSED, "green"),
        ([("setup", "passed"), ("call", "failed"), ("teardown", "passed")], "red"),
        ([("setup", "failed"), ("teardown", "passed")], "red"),
        ([("setup", "passed"), ("call", "passed"), ("teardown", "failed")], "red"),
        ([("setup", "skipped"), ("teardown", "passed")], "skipped"),
        ([("setup", "passed"), ("call", "skipped"), ("teardown", "passed")], "skipped"),
        ([("setup", "passed")], "red"),
        ([], "red"),
    ],
)
def test_a_cell_is_green_when_all_of_its_test_has_passed(reported: list[tuple[str, str]], colour: str) -> None:
    wanted = {"cells": 2, "green": 1, "red": 0, "skipped": 0}
    wanted[colour] += 1
    matrix = matrix_of(one=reported, other=PASSED)
    assert matrix.counts() == wanted
    assert matrix.table().splitlines()[1].split()[1:] == (["2"] if colour == "green" else ["1", "of", "2"])


def test_a_client_that_cannot_be_had_is_tried_once_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def absent() -> Client:
        tries.append(1)
        raise PeerError("no compiler here")

    listed = Listed("absent", absent)
    monkeypatch.setattr(cells, "CLIENTS", (CLIENTS[0], listed))
    monkeypatch.setenv(cells.VARIABLE, "absent,confluent-kafka")
    for _ in range(2):
        with pytest.raises(PeerError, match="no compiler"):
            cells.opened(listed)
    there, missing = cells.roll_call()
    assert [name.split()[0] for name in there] == ["confluent-kafka"]
    assert missing == {"absent": "no compiler here"}
    assert len(tries) == 1


def test_which_clients_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cells.VARIABLE, raising=False)
    assert [listed.name for listed in cells.chosen()] == [listed.name for listed in CLIENTS if listed.always]
    assert not any(program.is_chosen for program in cells.PROGRAMS)
    monkeypatch.setenv(cells.VARIABLE, "all")
    assert cells.chosen() == CLIENTS
    assert all(program.is_chosen for program in cells.PROGRAMS)
    monkeypatch.setenv(cells.VARIABLE, "spark")
    assert (cells.SPARK.is_chosen, cells.TOOLS.is_chosen, cells.chosen()) == (True, False, ())
    monkeypatch.setenv(cells.VARIABLE, "java,jawa")
    with pytest.raises(ValueError, match="names jawa; there are all, confluent-kafka"):
        cells.chosen()


def test_no_client_leaves_the_list_unnoticed() -> None:
    """One that does needs a decision record with the reason."""
    always = {"confluent-kafka", "kafka-python", "aiokafka", "kcat"}
    assert {listed.name for listed in CLIENTS if listed.always} >= always
    others = {"java", "confluent-kafka-2.3.0", "franz-go", "sarama", "kafkajs"}
    assert {listed.name for listed in CLIENTS} >= always | others


def test_what_clients_lack_is_something_that_there_is() -> None:
    known = {*cells.CAPABILITIES, *(f"reads {form}" for form in cells.FORMS)}
    assert {capability for listed in CLIENTS for capability in listed.lacks} <= known
