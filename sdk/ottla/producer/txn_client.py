"""The calls of one transactional id, to its coordinator and to the coordinators of groups whose offsets it commits.

If the coordinator may have moved, or is busy, a call is tried again until its time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from ottla.client import transaction_requests
from ottla.client.cluster import ClusterClient
from ottla.client.committed_offsets import Failures, Transaction, commit_in_transaction, in_parts
from ottla.client.coordinators import Coordinators
from ottla.client.offsets import GroupMetadata, Offsets, in_topics
from ottla.errors import OttlaError
from ottla.machines.membership import MemberIdentity
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla_core.model import TopicPartition
from ottla_core.routing import TXN
from ottla_core.transactions import TRANSACTIONS_V2

_EXPLAIN_S: Final = 2.0


class TxnClient:
    """Thread-safe. Timeouts are in seconds; raises the SDK's errors."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> None:
        self._cluster: Final = cluster
        self._id: Final = transactional_id
        self._timeout_ms: Final = timeout_ms
        self._txn: Final = Coordinators(cluster, TXN)
        self._groups: Final = Coordinators(cluster)

    def init(self, producer: ProducerEpoch | None, *, timeout: float) -> Assigned:
        """Return a new epoch, and abort an open transaction. With `producer`, only if no other has come since
        (KIP-360)."""
        asked = transaction_requests.initialization(self._id, self._timeout_ms, producer)
        return self._txn.exchange(self._id, asked, timeout=timeout)

    def end(self, current: Assigned, *, committed: bool, timeout: float) -> Assigned | None:
        """Decide the transaction, and return the producer of the next one; None if the epoch was not raised."""
        asked = transaction_requests.end(self._id, current, committed=committed)
        return self._txn.exchange(self._id, asked, timeout=timeout)

    def add_partitions(self, current: Assigned, partitions: Sequence[TopicPartition], *, timeout: float) -> None:
        """Add partitions to the transaction, all or none. Raises the error of a partition that prevented it.

        It is `about` that partition if the producer may not write to the topic.
        """
        asked = transaction_requests.addition_of_partitions(self._id, current.producer, partitions)
        self._txn.exchange(self._id, asked, timeout=timeout)

    def prepare(self, producer: ProducerEpoch, *, timeout: float) -> None:
        """Keep the transaction open until it is decided; repeating the call changes nothing."""
        from ottla.client.prepared_transactions import preparation

        self._txn.exchange(self._id, preparation(self._id, producer), timeout=timeout)

    def commit_offsets(self, current: Assigned, group: GroupMetadata, offsets: Offsets, *, timeout: float) -> None:
        """Commit offsets that count for the group once the transaction is committed."""
        until = self._cluster.clock.monotonic() + timeout
        if current.version < TRANSACTIONS_V2:
            added = transaction_requests.addition_of_offsets(self._id, current.producer, group.group)
            self._txn.exchange(self._id, added, timeout=timeout)
        member = MemberIdentity(group.member_id, group.generation, group.instance_id)
        transaction = Transaction(self._id, current)
        for part in in_parts(group.group, in_topics(offsets, group.topic_ids)):
            left_s = max(0.001, until - self._cluster.clock.monotonic())
            asked = commit_in_transaction(group.group, member, part, self._cluster.names, transaction)
            self._groups.exchange(group.group, asked.then(_raise_first), timeout=left_s)

    def explain(self, producer: ProducerEpoch) -> str:
        """Return which client ended the epoch of `producer`, when and why; "" if that is not known. Never raises."""
        asked = transaction_requests.description([self._id], list)
        try:
            described = self._txn.exchange(self._id, asked, timeout=_EXPLAIN_S)
        except OttlaError:
            return ""
        found = None
        for event in (event for each in described for event in each.events):
            at = ProducerEpoch(event.producer_id, event.producer_epoch)
            if at == producer:
                found = None
            elif found is None and (at.producer_id != producer.producer_id or at.epoch > producer.epoch):
                found = event
        if found is None:
            return ""
        when = datetime.fromtimestamp(found.at_ms / 1000, UTC).isoformat(" ", "seconds")
        who = f" by {found.client_id or 'a client'} at {found.client_host}" if found.client_host else ""
        return f"{found.kind}{who} on {when}" + (f": {found.cause}" if found.cause else "")


def _raise_first(failures: Failures) -> None:
    for error in failures.values():
        raise error
