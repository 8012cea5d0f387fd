"""The epochs of producers without an open transaction in a shard, for `producer.id.expiration.ms` after their last end.

By them a late marker of a coordinator that was deposed is told from one of its successor: it would end a newer
transaction. Markers do not say which shard of `__transaction_state` they come from, and coordinator epochs of two
shards can't be compared. So no single epoch can stand for the producers that are forgotten, and each is kept by itself
until it is old, as in a partition (Kafka's rule for producers). Memory is bounded all the same: beyond `MOST`
producers, about 5 MB, those that ended first are forgotten earlier.

Producers are kept in two generations, the newer of which becomes the older one from time to time. So an entry needs no
time of its own, and stays for between one and two expirations. What a shard has loaded counts from then on.
"""

from __future__ import annotations

from typing import Final

from ottla_core.transactions import ProducerEpochs

MOST: Final = 20_000

_UNKNOWN: Final = ProducerEpochs(-1)


class EndedProducers:
    """Those of one shard."""

    def __init__(self) -> None:
        self._newer: dict[int, ProducerEpochs] = {}
        self._older: dict[int, ProducerEpochs] = {}
        self._newer_since = float("-inf")

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, producer_id: int) -> ProducerEpochs:
        return self._newer.get(producer_id) or self._older.get(producer_id, _UNKNOWN)

    def pop(self, producer_id: int) -> ProducerEpochs:
        """Take the producer out: it has a transaction open, or ends another one."""
        older = self._older.pop(producer_id, _UNKNOWN)
        return self._newer.pop(producer_id, older)

    def add(self, producer_id: int, epochs: ProducerEpochs) -> None:
        """The producer, which is not among them, has ended a transaction."""
        if len(self._newer) >= MOST // 2:
            self._forget_older()
        self._newer[producer_id] = epochs

    def expire(self, now: float, expiration_s: float) -> None:
        """Forget those that were of the older generation for so long."""
        if now - self._newer_since >= expiration_s:
            self._forget_older()
            self._newer_since = now

    def _forget_older(self) -> None:
        self._older, self._newer = self._newer, {}
