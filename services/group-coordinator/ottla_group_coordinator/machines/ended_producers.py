"""The epochs of producers without an open transaction in a shard, for `producer.id.expiration.ms` after their last end.

They tell a late marker of a deposed coordinator, which would end a newer transaction, from one of its successor.
Markers do not say which shard of `__transaction_state` they come from, and coordinator epochs of two shards can't be
compared. So no single epoch can stand for the producers that are forgotten, and each is kept by itself until it is old,
as in a partition (Kafka's rule for producers). Memory is bounded all the same: beyond `MOST` producers, about 5 MB,
those that ended first are forgotten earlier.

Producers are kept in two generations, the newer of which becomes the older one from time to time. So an entry needs no
time of its own, and stays for between one and two expirations. The time of producers that a shard has loaded begins
with the load.
"""

from __future__ import annotations

from typing import Final

from ottla_core.transactions import ProducerEpochs

MOST: Final = 20_000

_UNKNOWN: Final = ProducerEpochs(-1)


class EndedProducers:
    """The epochs of the ended producers of one shard."""

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
        """Add a producer that has ended a transaction, and that is not among them."""
        if len(self._newer) >= MOST // 2:
            self._forget_older()
        self._newer[producer_id] = epochs

    def expire(self, now: float, expiration_s: float) -> None:
        """Forget the older generation once the newer one has lasted for `expiration_s`."""
        if now - self._newer_since >= expiration_s:
            self._forget_older()
            self._newer_since = now

    def _forget_older(self) -> None:
        self._older, self._newer = self._newer, {}
