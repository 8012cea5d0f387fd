"""These tests plan and read batches while brokers lag, or after a new leader has lost records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.errors import OffsetOutOfRangeError, TruncationError, UnknownTopicError
from ottla_core.errors import ErrorCode
from ottla_core.model import TopicPartition
from pyspark_ottla import cluster, reading
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.errors import PartitionsGoneError
from pyspark_ottla.machines.ranges import Range
from pyspark_ottla.options import read_options
from pyspark_ottla.reading import RangeReader

P = TopicPartition("t", 0)
COLUMNS = StructType([StructField("value", BinaryType())])
OLD, NEW = "0" * 32, "1" * 32


def reader(*, strict: bool = True) -> RangeReader:
    options = {"subscribe": "t", "kafka.bootstrap.servers": "a:1", "failOnDataLoss": str(strict).lower()}
    return RangeReader(read_options(options, streaming=True), COLUMNS)


def unknown() -> UnknownTopicError:
    return UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_ID, "another topic")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_POLL_S", 0.01)
    monkeypatch.setattr(cluster, "_UNKNOWN_PAUSE_S", 0.01)


@pytest.mark.story("spark-believes-the-first-broker")
def test_a_task_asks_again_before_it_takes_its_topic_for_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def read(self: RangeReader, range_: Range, topic_id: str) -> Iterator[tuple[Any, int]]:
        tries.append(range_.start)
        if len(tries) < 3:
            raise unknown()
        yield "rows", range_.end

    monkeypatch.setattr(RangeReader, "_read", read)
    assert list(reader()._until_end(Range(P, 5, 9), NEW)) == ["rows"]
    assert tries == [5, 5, 5]


@pytest.mark.parametrize("strict", [True, False])
def test_a_task_whose_topic_stays_unknown_ends(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    def read(self: RangeReader, range_: Range, topic_id: str) -> Iterator[tuple[Any, int]]:
        raise unknown()
        yield

    monkeypatch.setattr(reading, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    monkeypatch.setattr(RangeReader, "_read", read)
    rows = reader(strict=strict)._until_end(Range(P, 5, 9), NEW)
    if strict:
        with pytest.raises(PartitionsGoneError):
            list(rows)
    else:
        assert list(rows) == []


@pytest.mark.story("spark-skips-a-range-after-an-election")
@pytest.mark.parametrize(
    ("first", "end", "diverged", "goes_on", "gone"),
    [
        (0, 2000, 480, 500, "t-0 480..499"),
        (0, 2000, None, 500, "t-0 499..499"),
        (700, 2000, 480, 700, "t-0 500..699"),
        (0, 490, 480, 1000, "t-0 500..999"),
    ],
)
def test_after_an_unclean_election_a_task_goes_on_where_the_new_leader_has_records(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first: int,
    end: int,
    diverged: int | None,
    goes_on: int,
    gone: str,
) -> None:
    monkeypatch.setattr(SourcePartitions, "earliest", lambda self, partitions: {P: first})
    monkeypatch.setattr(SourcePartitions, "log_ends", lambda self, partitions: {P: end})
    error = TruncationError("truncated", offset=500, divergent_offset=diverged)
    assert reader(strict=False)._after_loss(Range(P, 500, 1000), error) == goes_on
    assert gone in caplog.text
    with pytest.raises(OffsetOutOfRangeError, match=gone):
        reader()._after_loss(Range(P, 500, 1000), error)


@pytest.mark.story("spark-believes-the-first-broker")
def test_planning_asks_again_while_a_broker_names_a_former_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [OLD, OLD, NEW]

    def existing(self: SourcePartitions, *_: Any) -> list[TopicPartition]:
        self.ids = {"t": answers.pop(0) if len(answers) > 1 else answers[0]}
        return [P]

    monkeypatch.setattr(SourcePartitions, "_existing", existing)
    partitions = SourcePartitions(reader().options)
    assert partitions.existing(known=[P], ids={"t": NEW}) == [P]
    assert partitions.ids == {"t": NEW}
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    assert partitions.existing(known=[P], ids={"t": OLD}) == [P], "after a while it believes that it was recreated"
    assert partitions.ids == {"t": NEW}
    partitions.close()
