"""How fast a topic grows, and when retention begins to delete."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla_cli.growth import Growth, PartitionAge, growth

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
OF_A_DAY = PartitionAge(1_000, NOW_MS - DAY_MS)
OF_TWO = PartitionAge(4_000, NOW_MS - 2 * DAY_MS)
WEEK = {"retention.ms": str(7 * DAY_MS), "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("configs", "deletes_from_ms", "by"),
    [
        (WEEK, NOW_MS + 5 * DAY_MS, "retention.ms"),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, None, ""),
        ({"retention.ms": "-1", "retention.bytes": "10000"}, NOW_MS + 3 * DAY_MS, "retention.bytes"),
        ({"retention.ms": str(4 * DAY_MS), "retention.bytes": "10000"}, NOW_MS + 2 * DAY_MS, "retention.ms"),
        ({"retention.ms": str(DAY_MS), "retention.bytes": "-1"}, NOW_MS - DAY_MS, "retention.ms"),
        ({"retention.ms": "-1", "retention.bytes": "500"}, NOW_MS, "retention.bytes"),
        ({**WEEK, "cleanup.policy": "compact"}, None, ""),
        ({**WEEK, "cleanup.policy": "compact,delete"}, NOW_MS + 5 * DAY_MS, "retention.ms"),
    ],
)
def test_the_first_partition_that_loses_something_counts(
    configs: Mapping[str, str], deletes_from_ms: int | None, by: str
) -> None:
    assert growth([OF_A_DAY, OF_TWO], configs, NOW_MS) == Growth(3_000, deletes_from_ms, by)


def test_without_records_there_is_nothing_to_tell() -> None:
    assert growth([], WEEK, NOW_MS) is None


def test_records_of_this_moment_and_of_the_future_grow_by_no_infinity() -> None:
    found = growth([PartitionAge(10, NOW_MS), PartitionAge(0, NOW_MS + 5)], WEEK | {"retention.bytes": "50"}, NOW_MS)
    assert found is not None
    assert found.bytes_per_day == 240, "as if in the last hour"
    assert found.by == "retention.bytes"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Growth(3_000, None, ""), "3,000 bytes a day; nothing is deleted by time or size"),
        (Growth(3_000, NOW_MS - 1, "retention.ms"), "3,000 bytes a day; retention.ms deletes the oldest segments"),
        (
            Growth(3_000, NOW_MS + DAY_MS, "retention.bytes"),
            "3,000 bytes a day; retention.bytes begins to delete at 2023-11-15 22:13 UTC",
        ),
    ],
)
def test_it_is_told_in_a_line(found: Growth, text: str) -> None:
    assert found.as_text(NOW_MS) == text
    assert found.item(NOW_MS)["text"] == text
