"""Producers without an open transaction are known until they are old, and no more than so many of them."""

from __future__ import annotations

import pytest

from ottla_core.transactions import ProducerEpochs
from ottla_group_coordinator.machines import ended_producers
from ottla_group_coordinator.machines.ended_producers import EndedProducers

UNKNOWN = ProducerEpochs(-1)
DAY_S = 86_400.0


def known(ended: EndedProducers, *producer_ids: int) -> list[int]:
    return [id_ for id_ in producer_ids if ended.get(id_) != UNKNOWN]


def test_one_is_known_for_one_to_two_expirations() -> None:
    ended = EndedProducers()
    ended.expire(0.0, DAY_S)
    ended.add(1, ProducerEpochs(3, 7))
    ended.expire(DAY_S - 1, DAY_S)
    ended.add(2, ProducerEpochs(4, 8))
    ended.expire(DAY_S, DAY_S)
    ended.expire(2 * DAY_S - 1, DAY_S)
    assert [ended.get(1), ended.get(2)] == [ProducerEpochs(3, 7), ProducerEpochs(4, 8)]
    ended.expire(2 * DAY_S, DAY_S)
    assert len(ended) == 0
    assert ended.get(2) == UNKNOWN


def test_one_that_ends_again_is_as_new() -> None:
    ended = EndedProducers()
    ended.add(1, ProducerEpochs(3, 7))
    ended.expire(0.0, DAY_S)
    assert ended.pop(1) == ProducerEpochs(3, 7)
    assert ended.pop(1) == ended.get(1) == UNKNOWN
    ended.add(1, ProducerEpochs(3, 8))
    assert ended.pop(1) == ProducerEpochs(3, 8)
    assert len(ended) == 0
    ended.add(1, ProducerEpochs(3, 8))
    ended.expire(DAY_S, DAY_S)
    assert ended.get(1) == ProducerEpochs(3, 8)


def test_there_are_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_producers, "MOST", 10)
    ended = EndedProducers()
    most = 0
    for producer_id in range(100):
        ended.add(producer_id, ProducerEpochs(1, 1))
        most = max(most, len(ended))
        assert ended.get(producer_id) == ProducerEpochs(1, 1)
    assert most == 10
    assert known(ended, *range(100)) == list(range(90, 100))
