"""Losses are named one by one, and not without end."""

from __future__ import annotations

from ottla_core.model import TopicPartition
from pyspark_ottla.errors import beyond_end, data_lost, foreign_checkpoint, partitions_gone
from pyspark_ottla.machines.ranges import Range

MANY = [Range(TopicPartition("t", n), 5, 10) for n in range(1000)]


def test_every_loss_is_named_up_to_twenty_and_counted() -> None:
    assert data_lost(MANY[:2]).message == (
        "10 offsets that the query has not read yet are gone: t-0 5..9 (5 offsets); t-1 5..9 (5 offsets)"
    )
    words = data_lost(MANY).message
    assert words.startswith("5,000 offsets")
    assert words.count("t-") == 20
    assert words.endswith("; …")


def test_ends_are_named_up_to_twenty() -> None:
    assert "t-0 ends at 5, and the query is at 10" in beyond_end(MANY[:1]).message
    assert beyond_end(MANY).message.count("t-") == 20


def test_partitions_are_named_up_to_twenty() -> None:
    assert partitions_gone([MANY[0].partition]).message == "t-0: deleted while the query was reading"
    assert partitions_gone([each.partition for each in MANY]).message.count("t-") == 20


def test_every_error_says_what_to_do() -> None:
    for error in (data_lost(MANY), beyond_end(MANY), partitions_gone([MANY[0].partition])):
        assert "failOnDataLoss" in error.hint
    assert "checkpointLocation" in foreign_checkpoint("a", "b").hint
