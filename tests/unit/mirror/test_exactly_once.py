"""The copier that writes in transactions, between two scripted clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from copiers import COPY, SOURCE, Sides

from ottla.errors import ErrorCode
from ottla.fakes.scripted import Hold, Reject
from ottla.fakes.scripted_streams import Step
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.copying import exactly_once
from ottla_mirror.copying.exactly_once import ExactlyOnceCopier
from ottla_mirror.machines.progress import CopiedPartition
from ottla_proto.client_calls import Client


@pytest.fixture
def sides() -> Iterator[Sides]:
    made = Sides(ExactlyOnceCopier, transactional_id="x", request_timeout=1, delivery_timeout=2)
    made.producer.init_transactions()
    yield made
    made.close()


@pytest.mark.story("commit-behind-a-leaderless-partition")
@pytest.mark.parametrize(
    ("step", "reason"),
    [(Hold(), "offset syncs can't be written"), (Reject(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), "no room")],
)
def test_a_round_whose_offset_syncs_are_not_written_is_aborted_within_seconds(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, step: Step, reason: str
) -> None:
    monkeypatch.setattr(exactly_once, "_FLUSH_S", 0.5)
    monkeypatch.setattr(exactly_once, "_SYNCS_S", 0.1)
    monkeypatch.setattr(Writer, "send_offsets", lambda writer, offsets, member: None)  # the group is not scripted
    sides.target.will(Client.PRODUCE, None, *[step] * 1000)
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    for _ in range(3):
        if not sides.copier.trouble:
            sides.copier.step(0.5)
    assert reason in sides.copier.trouble
    assert partition.committed is None
    sides.target._steps.clear()
    sides.target.release()
    while partition.committed is None:
        sides.clock.advance(20.0)
        sides.copier.step(0.5)
    assert (partition.committed.offset, sides.copier.trouble) == (10, "")
