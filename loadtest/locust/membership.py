"""One member of a churning group, from its joining to its end, and what it has to see meanwhile."""

from __future__ import annotations

import time
import uuid
from typing import Final

from loadtest.locust import topics
from loadtest.locust.churn import Churn, ChurnError, check_committed
from loadtest.rows.clients import Reach, new_consumer
from ottla.consumer.group.listener import Partitions, RebalanceListener
from ottla.errors import CommitFailedError, RebalanceInProgressError
from ottla_core.model import TopicPartition

SESSION_S: Final = 6.0
"""The shortest that a coordinator allows: so long a group waits for a member that has ended without a word."""

REBALANCE_S: Final = 20.0
"""Nobody may wait for longer: for two sessions, where first a member and then the leader end so, and for the rest."""

_HEARTBEAT_S: Final = 0.3
_POLL_S: Final = 0.2
_EVERYWHERE: Final = [TopicPartition(topics.CHURN, n) for n in range(topics.PARTITIONS)]


class Membership(RebalanceListener):
    """`instance` makes it a static member, which does not say that it leaves."""

    def __init__(self, reach: Reach, assignor: str, instance: str | None, churn: Churn) -> None:
        self.size_bytes = 0
        self.group: Final = f"{topics.CHURN}-{assignor}"
        self._name: Final = instance or uuid.uuid4().hex
        self._churn: Final = churn
        self._generation = -1
        self._began_at: Final = time.monotonic()
        self._waits_since: float | None = self._began_at
        self._joined_at: float | None = None
        self._consumer: Final = new_consumer(
            reach,
            topics.CHURN,
            group=self.group,
            auto_offset_reset="earliest",
            commit="manual",
            session_timeout=SESSION_S,
            heartbeat_interval=_HEARTBEAT_S,
            max_poll_interval=REBALANCE_S,
            request_timeout=10.0,
            assignors=assignor,
            group_instance_id=instance,
            listener=self,
        )

    @property
    def waited_s(self) -> float:
        """From its beginning until it had its partitions, or until now."""
        return (self._joined_at or time.monotonic()) - self._began_at

    def run(self, stay_s: float) -> None:
        """Join, and read for so many seconds; a rebalance that begins meanwhile is awaited.

        Raises ChurnError where a rule is broken or it waits for too long, and whatever the SDK raises.
        """
        with self._consumer:
            while self._waits_since is not None:
                self._read()
            self._check_committed()
            leaves_at = time.monotonic() + stay_s
            while self._waits_since is not None or time.monotonic() < leaves_at:
                self._read()

    # ---- what its group tells it ------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Partitions) -> None:
        """From here on, and until it is told of others, it reads as a member of this generation."""
        self._generation = self._consumer.group_metadata.generation
        self._waits_since = None
        self._joined_at = self._joined_at or time.monotonic()
        self._churn.on_assigned(self.group, self._generation)

    def on_revoked(self, partitions: Partitions) -> None:
        self._waits_since = time.monotonic()

    # ---- what it does -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        batch = self._consumer.poll(_POLL_S)
        if self._waits_since is not None and time.monotonic() - self._waits_since > REBALANCE_S:
            raise ChurnError(f"a member of {self.group} waited more than {REBALANCE_S:g} s for its partitions")
        if not batch:
            return
        self.size_bytes += sum(map(len, batch.values()))
        self._churn.on_read(self.group, self._generation, self._name, batch.first_offsets)
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in batch}
        try:
            self._consumer.commit(offsets)
        except (CommitFailedError, RebalanceInProgressError):
            return  # whoever has the partitions next reads this again
        self._churn.on_committed(self.group, offsets)

    def _check_committed(self) -> None:
        at_least = self._churn.committed(self.group)
        told = self._consumer.committed(*_EVERYWHERE)
        check_committed(self.group, at_least, {p: place and place.offset for p, place in told.items()})
