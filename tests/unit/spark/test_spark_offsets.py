"""Offsets as the checkpoint has them, and the places that options mean."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.model import TopicPartition
from pyspark_ottla.lag import lag_of
from pyspark_ottla.machines.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    differing,
    epochs_in,
    epochs_of,
    from_json,
    ids_in,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.tuples(st.sampled_from(["a", "b-1", "c.d_e"]), st.integers(0, 2000)).map(lambda p: TopicPartition(*p))


@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1)))
def test_offsets_come_back_from_the_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_equal_offsets_are_equal_texts_as_spark_compares_them() -> None:
    texts = {json.dumps(to_json(told)) for told in ({A1: 2, B0: 3, A0: 1}, {A0: 1, A1: 2, B0: 3})}
    assert texts == {'{"a": {"0": 1, "1": 2}, "b": {"0": 3}}'}


def test_each_topic_has_its_id_beside_its_partitions_and_older_checkpoints_have_none() -> None:
    told = to_json({B0: 3, A0: 1}, {"a": "one", "c": "not read"})
    assert json.dumps(told) == '{"a": {"0": 1, "id": "one"}, "b": {"0": 3}}'
    assert from_json(told) == {A0: 1, B0: 3}
    assert ids_in(told) == {"a": "one"}
    assert differing(ids_in(told), {"a": "two", "b": "three"}) == {"a"}
    assert differing(ids_in(told), {"b": "three"}) == frozenset()


def test_each_offset_has_an_epoch_beside_it_which_changes_only_with_it() -> None:
    epochs = epochs_of({A0: 5, A1: 7, B0: 3}, {A0: 9, A1: 9}, {A0: 5, A1: 6}, {A0: 4})
    assert epochs == {A0: 4, A1: 9}
    told = to_json({A0: 5, A1: 7, B0: 3}, {"a": "one"}, epochs=epochs)
    assert json.dumps(told) == '{"a": {"0": 5, "1": 7, "id": "one", "epochs": {"0": 4, "1": 9}}, "b": {"0": 3}}'
    assert (from_json(told), epochs_in(told)) == ({A0: 5, A1: 7, B0: 3}, epochs)


def test_of_a_topic_that_was_made_anew_nothing_was_read() -> None:
    ended, latest = ({A0: at, A1: 1} for at in (90, 100))
    assert lag_of(json.dumps(to_json(ended)), json.dumps(to_json(latest, {"a": "one"}))) == {A0: 10, A1: 0}
    assert lag_of(json.dumps(to_json(ended, {"a": "x"})), json.dumps(to_json(latest, {"a": "y"}))) == {A0: 100, A1: 1}


@pytest.mark.parametrize("told", [{"a": 5}, {"a": {"x": 1}}, {"logOffset": 3}])
def test_other_sources_offsets_are_told_from_ours(told: dict[str, dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"offsets|invalid literal"):
        from_json(told)


def test_a_bound_is_an_offset_a_time_or_an_end_of_the_log() -> None:
    mixed = Bound(offsets={A0: 5, A1: LATEST, B0: EARLIEST})
    assert [mixed.timestamp_of(p) for p in (A0, A1, B0)] == [None, -1, -2]
    assert mixed.named == {A0, A1, B0}
    assert Bound(otherwise=EARLIEST).timestamp_of(A0) == -2
    assert Bound(timestamp_ms=7).timestamp_of(A0) == 7
    assert Bound(timestamps_ms={A0: 8}).timestamp_of(A0) == 8
    assert Bound(timestamp_ms=0).named == frozenset()
