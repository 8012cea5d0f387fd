"""What makes the row of a starved cluster fail, and what it is measured by."""

from __future__ import annotations

import math

import pytest
from tests.faults.checker import Findings
from tests.faults.gaps import SECOND_NS
from tests.faults.history import Operation
from tests.faults.starved.counted import COUNTERS, parse
from tests.faults.starved.latencies import Latencies
from tests.faults.starved.processor import Processor
from tests.faults.starved.run import LEAST_ACKNOWLEDGED, StarvedFigures, missed

P99_MS = {"before": 100.0, "busy": 900.0, "after": 120.0}


def as_it_must_be() -> StarvedFigures:
    return StarvedFigures(
        written=Findings(acknowledged=LEAST_ACKNOWLEDGED),
        counted=dict.fromkeys(COUNTERS, 0) | {"loop_gaps": 7},
        starved={"broker-0": 0.5, "coordinator-0": 0.4},
        commit_p99_ms=P99_MS,
        send_p99_ms=P99_MS,
    )


def test_to_be_slow_while_the_cores_are_shared_is_no_failure() -> None:
    assert missed(as_it_must_be(), 1.0) == []


@pytest.mark.parametrize("name", ["shards_given_up", "shards_left", "shard_loads", "leases_lost"])
def test_whoever_lives_keeps_what_it_has(name: str) -> None:
    figures = as_it_must_be()
    figures.counted = {**figures.counted, name: 1}
    assert len(missed(figures, 1.0)) == 1
    figures.counted = {each: 0 for each in COUNTERS if each != name}
    assert len(missed(figures, 1.0)) == 1, "what was not counted is not known to be 0"


def test_elections_count_too() -> None:
    figures = as_it_must_be()
    figures.elections = 2
    assert missed(figures, 1.0) == ["elections: 2, and whoever lives keeps what it has"]


@pytest.mark.parametrize("after", [201.0, math.nan])
def test_afterwards_all_is_as_fast_as_before(after: float) -> None:
    figures = as_it_must_be()
    figures.commit_p99_ms = P99_MS | {"after": after}
    assert len(missed(figures, 1.0)) == 1
    figures.commit_p99_ms = {}
    assert len(missed(figures, 1.0)) == 1


def test_a_run_in_which_little_was_done_or_nobody_starved_says_nothing() -> None:
    figures = as_it_must_be()
    figures.written = Findings(acknowledged=LEAST_ACKNOWLEDGED - 1)
    assert len(missed(figures, 1.0)) == 1
    assert missed(figures, 0.5) == []
    figures.starved = {"broker-0": 0.1}
    assert len(missed(figures, 0.5)) == 1


def test_how_starved_a_process_was() -> None:
    assert Processor(3.0, 10.0).since(Processor(1.0, 4.0)).starved == pytest.approx(0.75)
    assert Processor(0.0, 0.0).starved == 0.0


def test_the_series_of_a_metric_are_summed() -> None:
    text = '# HELP gaps x\n# TYPE gaps counter\ngaps{cause="starved"} 2.0\ngaps{cause="stopped"} 1.0\nother 4.5\n'
    assert parse(text) == {"gaps": 3.0, "other": 4.5}


def commit(number: int, asked_s: float, answered_s: float) -> list[Operation]:
    call = {"process": "m0", "f": "commit", "id": number}
    return [
        call | {"type": "invoke", "mono_ns": int(asked_s * SECOND_NS)},
        call | {"type": "ok", "mono_ns": int(answered_s * SECOND_NS)},
    ]


def test_the_p99_of_a_phase_is_what_is_usual_in_it() -> None:
    latencies = Latencies()
    waits_s = [(0.0, 0.01), (1.0, 0.02), (6.0, 3.0), (11.0, 0.03), (21.0, 9.0)]  # windows of 5 s, and one too late
    for number, (asked_s, wait_s) in enumerate(waits_s):
        for operation in commit(number, asked_s, asked_s + wait_s):
            latencies.on_operation(operation)
    assert latencies.p99_ms("commit", {"before": (0, 15 * SECOND_NS)}) == {"before": pytest.approx(30.0)}
    assert math.isnan(latencies.p99_ms("send", {"before": (0, 15 * SECOND_NS)})["before"])


def test_a_send_is_answered_when_its_first_value_is() -> None:
    latencies = Latencies()
    line = {"process": "w0", "f": "send", "partition": 1}
    for fields in (
        {"type": "invoke", "first": 0, "count": 5, "mono_ns": 0},
        {"type": "invoke", "first": 5, "count": 5, "mono_ns": SECOND_NS},
        {"type": "ok", "first": 3, "count": 4, "mono_ns": 2 * SECOND_NS},
        {"type": "info", "first": 7, "count": 3, "mono_ns": 3 * SECOND_NS},
    ):
        latencies.on_operation(line | fields)
    assert latencies.p99_ms("send", {"all": (0, SECOND_NS)}) == {"all": pytest.approx(2000.0)}
