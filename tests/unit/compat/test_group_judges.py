"""What judges of groups find is compared: what differs from run to run is left out, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compat.group_judges.comparison import compare
from tests.compat.group_judges.tables import normalized

TOLD = """
GROUP            TOPIC      PARTITION  CURRENT-OFFSET  CONSUMER-ID             HOST            CLIENT-ID
mixed-of-t-4     t-4        1          10              +JbWx1i4S7GbUQSFNzDhWw  /127.0.0.1      rdkafka
mixed-of-t-4     t-4        0          10              rdkafka-0b3e2ff3-1d7e-4a6b-9a55-6d2d8e3f0c11 /127.0.0.1 rdkafka
group-of-t-3     t-3        0          5               -                       -               -
"""


def test_ids_hosts_and_the_order_of_rows_are_left_out() -> None:
    assert normalized(TOLD, "t-4") == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "CONSUMER-ID", "HOST", "CLIENT-ID"],
        ["mixed-of-TOPIC", "TOPIC", "0", "10", "MEMBER", "HOST", "rdkafka"],
        ["mixed-of-TOPIC", "TOPIC", "1", "10", "MEMBER", "HOST", "rdkafka"],
    ]


def test_a_coordinator_is_left_out_and_a_state_is_not() -> None:
    told = "empty-of-t-4 127.0.0.1:9092 (0)  uniform  Empty  0"
    assert normalized(told, "t-4") == [["empty-of-TOPIC", "COORDINATOR", "uniform", "Empty", "0"]]


def test_a_difference_without_a_reason_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, object]] = []

    def record(name: str, value: object) -> None:
        told.append((name, value))

    theirs: dict[str, Any] = {"a": 1, "b": 2}
    compare("judge", theirs, dict(theirs), record)
    assert told == []
    with pytest.raises(AssertionError, match="no reason"):
        compare("judge", theirs, {"a": 1, "b": 3}, record)
    monkeypatch.setattr("tests.compat.group_judges.comparison.KNOWN", {"judge: b": "as it must be"})
    compare("judge", theirs, {"a": 1, "b": 3}, record)
    assert told == [("differs", "judge: b: not explained"), ("differs", "judge: b: as it must be")]
