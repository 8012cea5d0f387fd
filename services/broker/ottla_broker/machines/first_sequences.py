"""The lowest sequences of producers that a partition does not know yet: no later batch is taken before them.

A partition takes any sequence of a producer that it does not know, because its knowledge may have expired. So while a
producer's first batch waits for its verification, or after it failed and before the producer sends it again, a later
batch would be taken in its place. The first batch would be out of order from then on, and its transaction lost. That is
why each transactional batch of an unknown producer leaves its sequence here when it has to wait (Kafka's
VerificationStateEntry). As in Kafka, batches of no transaction leave none. Pure.

A sequence is forgotten with the first batch or marker of its producer, with a higher epoch, with the leadership, and
after `producer.id.expiration.ms`. It stays if its batch is refused for good: that transaction can only be aborted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import NO_PRODUCER_ID, BatchHeader

MOST: Final = 10_000
"""The most producers of one partition, about 2 MB. If there are more, the earliest ones are forgotten."""

_SEQUENCES: Final = 1 << 31


class _Lowest(NamedTuple):
    epoch: int
    sequence: int
    since_ms: int


class FirstSequences:
    """The lowest sequences of one partition's unknown producers. For one thread."""

    __slots__ = ("_lowest", "_most")

    def __init__(self, most: int = MOST) -> None:
        self._lowest: dict[int, _Lowest] = {}
        self._most: Final = most

    def __len__(self) -> int:
        return len(self._lowest)

    def expect(self, header: BatchHeader, now_ms: int) -> None:
        """Note a batch that is not taken now and whose producer the partition does not know."""
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence < 0:
            return
        known = self._lowest.get(header.producer_id)
        if known is not None and (
            header.producer_epoch < known.epoch
            or (header.producer_epoch == known.epoch and not _is_before(header.base_sequence, known.sequence))
        ):
            return
        since_ms = now_ms if known is None else known.since_ms
        self._lowest[header.producer_id] = _Lowest(header.producer_epoch, header.base_sequence, since_ms)
        if len(self._lowest) > self._most:
            del self._lowest[next(iter(self._lowest))]

    def check(self, header: BatchHeader) -> None:
        """Raise OUT_OF_ORDER_SEQUENCE_NUMBER if a batch before this one is expected."""
        lowest = self._lowest.get(header.producer_id)
        if lowest is None or lowest.epoch != header.producer_epoch:
            return
        if _is_before(lowest.sequence, header.base_sequence):
            raise OttlaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, but its batch with sequence "
                f"{lowest.sequence} has not been appended yet",
                hint="send the batches again, in order",
            )

    def forget(self, producer_id: int) -> None:
        self._lowest.pop(producer_id, None)

    def clear(self) -> None:
        self._lowest.clear()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers whose first batch has not come again for that long."""
        self._lowest = {id_: each for id_, each in self._lowest.items() if now_ms - each.since_ms < expiration_ms}


def _is_before(sequence: int, other: int) -> bool:
    """Return whether `sequence` comes before `other`. Half of all sequences do, because 0 follows the last one."""
    return 0 < (other - sequence) % _SEQUENCES <= _SEQUENCES // 2
