"""The finder says where copying starts, by the flow's group, its table, its offset syncs and the copies themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.admin import CALL_S, Admin
from ottla_mirror.clusters.member import Member
from ottla_mirror.copying.position_commits import to_commit
from ottla_mirror.machines.progress import BEGINNING, Position, read_note
from ottla_mirror.machines.starts import Known, Start, start_of
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs

Starts = Mapping[TopicPartition, Start | OttlaError]
"""It says by copy where each starts, or why it can't."""


class StartFinder:
    """The finder looks at the copies by `target`. `compares` is as in `start_of`. For one thread."""

    def __init__(self, member: Member, target: Admin, state: FlowState, syncs: OffsetSyncs, *, compares: bool) -> None:
        self._member: Final = member
        self._target: Final = target
        self._state: Final = state
        self._syncs: Final = syncs
        self._compares: Final = compares

    def find(self, sources: Mapping[TopicPartition, TopicPartition]) -> Starts:
        """Find where copying into these copies starts. `sources` has the source of each. New copies are noted before
        this returns.

        Raises if none of them can be looked at.
        """
        committed = self._committed(sources)
        self._state.catch_up(CALL_S)  # a predecessor may have begun one of them a moment ago
        ids = self._target.topic_ids(dict.fromkeys(copy.topic for copy in sources))
        ours = {copy for copy in sources if (b := self._state.begun(copy)) and b.copy_id == ids.get(copy.topic)}
        if any(committed[copy] is None or copy not in ours for copy in sources):
            self._syncs.catch_up(CALL_S)
        others = [copy for copy in sources if copy.topic in ids and copy not in ours]
        ends: Mapping[TopicPartition, int | None] = {**dict.fromkeys(others), **self._target.ends(others)}
        starts = dict[TopicPartition, Start | OttlaError]()
        for copy, source in sources.items():
            begun = self._state.begun(copy)
            synced = None if begun is None else self._syncs.position_of(source, begun.generation)
            try:
                copy_id = _known(ids, copy.topic)
                end = _found(ends.get(copy, 0), copy)
                known = Known(begun, committed[copy], synced, copy_id, end, self._syncs.generation(source))
                starts[copy] = start_of(copy, known, compares=self._compares)
            except OttlaError as error:
                starts[copy] = error
        self._begin(starts, committed)
        return starts

    def _committed(self, copies: Collection[TopicPartition]) -> dict[TopicPartition, Position | None]:
        found = {
            copy: None if at is None else read_note(at.offset, at.metadata)
            for copy, at in self._member.committed(list(copies)).items()
        }
        return {copy: None if position == BEGINNING else position for copy, position in found.items()}

    def _begin(self, starts: Starts, committed: Mapping[TopicPartition, Position | None]) -> None:
        """Note which copies are begun. Before that, have the group forget its position in a former copy of that name,
        since a successor would resume there."""
        begun = {copy: each.begun for copy, each in starts.items() if isinstance(each, Start)}
        new = {copy: which for copy, which in begun.items() if which != self._state.begun(copy)}
        former = [copy for copy, which in new.items() if which.generation and committed[copy] is not None]
        if former:
            self._member.commit(dict.fromkeys(former, to_commit(BEGINNING)))
        if new:
            self._state.note_begun(new)


def _known(ids: Mapping[str, TopicId], topic: str) -> TopicId:
    if topic not in ids:
        raise OttlaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} is gone", hint="the mirror recreates the topic"
        )
    return ids[topic]


def _found(end: int | None, copy: TopicPartition) -> int:
    if end is None:
        raise OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{copy} has no leader")
    return end
