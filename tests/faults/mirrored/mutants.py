"""The rules of copying, broken on purpose in mirrors: each must be found by the row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

import ottla
import ottla_mirror.copying.same_offsets
import ottla_mirror.copying.start_finder
import ottla_mirror.groups.redis_map
import ottla_mirror.machines.copying
import ottla_mirror.syncing.topic_sync
from ottla.mirror.redis_offsets import member_of
from ottla_core.records.batch import CODEC_MASK, NO_PRODUCER_ID, iter_headers, of_no_producer
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_mirror.copying.exactly_once import ExactlyOnceCopier
from ottla_mirror.groups.group_offsets import GroupOffsets
from ottla_mirror.machines.copying import Fetched, KeptBatch
from ottla_mirror.machines.group_plan import Move
from ottla_mirror.machines.offset_map import OffsetMap
from ottla_mirror.machines.starts import Known, Start, start_of
from ottla_mirror.machines.topic_names import TopicNames


def _producer_ids_copied() -> None:
    """A batch keeps the producer that it had in the source (where no transaction of the mirror's own is about it)."""
    seal = SealedBatch.seal

    def as_it_was(
        self: Any,
        codec: Codec = Codec.NONE,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        attributes: int = 0,
    ) -> bytes:
        own = self._header
        if attributes & ~CODEC_MASK == 0 and own.producer_id != NO_PRODUCER_ID:
            producer_id, producer_epoch, base_sequence = own.producer_id, own.producer_epoch, own.base_sequence
        return seal(
            self,
            codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            attributes=attributes,
        )

    put_in_place(SealedBatch, "seal", as_it_was)


def _crc_not_checked() -> None:
    """What has changed on its way is given another checksum, and is as good as what was written."""
    put_in_place(ottla_mirror.machines.copying, "check_stored", lambda data, at=0: None)


def _position_outside_the_transaction() -> None:
    """The group has the position one round after the records are committed."""
    step = ExactlyOnceCopier.step

    def step_and_commit(self: Any, timeout: float) -> None:
        member, late = self._member, self.__dict__.setdefault("late", {})

        def keep(offsets: Mapping[ottla.TopicPartition, Any], group: object) -> None:
            late.update(offsets)

        self._writer.send_offsets = keep
        former = dict(late)
        late.clear()
        step(self, timeout)
        if former:
            member.commit(former)

    put_in_place(ExactlyOnceCopier, "step", step_and_commit)


def _translation_rounded_up() -> None:
    """An offset within a stretch translates to the stretch's end."""

    def rounded_up(self: Any, offset: int) -> int | None:
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return None
        return int(self._targets[at] + self._lengths[at])

    put_in_place(OffsetMap, "translate", rounded_up)


def _redis_ahead() -> None:
    """In Redis a stretch begins in the copy where it ends."""
    put_in_place(ottla_mirror.groups.redis_map, "member_of", lambda source, target, n: member_of(source, target + n, n))


def _aborted_records_kept() -> None:
    """A copy with the source's offsets has all of its records, what was aborted among them."""

    def all_of(fetched: Fetched) -> Iterator[KeptBatch]:
        data = memoryview(fetched.records)
        for at, header in iter_headers(data):
            if not header.is_control and header.record_count:
                yield KeptBatch(header, of_no_producer(header, data[at : at + header.size_bytes]))

    put_in_place(ottla_mirror.copying.same_offsets, "kept", all_of)


def _position_of_the_group_alone() -> None:
    """Where copying goes on is what the group has committed, or the beginning: offset syncs are not looked at."""
    finder = ottla_mirror.copying.start_finder

    def without_syncs(copy: ottla.TopicPartition, known: Known, *, compares: bool) -> Start:
        return start_of(copy, known._replace(synced=None), compares=compares)

    put_in_place(finder, "start_of", without_syncs)


def _offset_syncs_expire() -> None:
    """Their topic has the retention of any other one."""
    own = ottla_mirror.syncing.topic_sync.own_topics

    def deleted(names: TopicNames) -> dict[str, Mapping[str, str]]:
        return {**own(names), names.offset_syncs: {"cleanup.policy": "delete", "retention.ms": f"{7 * 24 * 3600_000}"}}

    put_in_place(ottla_mirror.syncing.topic_sync, "own_topics", deleted)


def _groups_led_back() -> None:
    """A group is committed for wherever it is elsewhere."""
    put_in_place(Move, "is_due", property(lambda self: self.after is not None and self.after != self.had))


def _obstacles_not_named() -> None:
    """What is not moved is told like what is."""
    put_in_place(Move, "obstacle", property(lambda self: ""))


def _checkpoints_not_consulted() -> None:
    """Groups whose positions have expired are none."""
    put_in_place(GroupOffsets, "_living", lambda self, group: [])


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "none": lambda: None,
        "producer-ids-copied": _producer_ids_copied,
        "crc-not-checked": _crc_not_checked,
        "position-outside-the-transaction": _position_outside_the_transaction,
        "translation-rounded-up": _translation_rounded_up,
        "redis-ahead": _redis_ahead,
        "aborted-records-kept": _aborted_records_kept,
        "position-of-the-group-alone": _position_of_the_group_alone,
        "offset-syncs-expire": _offset_syncs_expire,
        "groups-led-back": _groups_led_back,
        "obstacles-not-named": _obstacles_not_named,
        "checkpoints-not-consulted": _checkpoints_not_consulted,
    }
)
