"""A follower reads one of a flow's own topics in the target from its beginning: what all of its mirrors have
written."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from threading import Condition
from time import monotonic
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import CALL_S
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.log import LogRecord

_STEP_S: Final = 0.5


class TopicFollower(Chore):
    """A follower is `caught_up` once it knows all that was there when reading began. `position` is the next offset to
    read. For any thread."""

    def __init__(self, failing: str, cluster: Cluster, topic: str) -> None:
        super().__init__(failing)
        self.caught_up = False
        self.position = 0
        self.lock: Final = Condition()
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._ends: Final = cluster.open_admin(topic)

    @abstractmethod
    def forget(self) -> None:
        """Forget what was learned, because everything is read again."""

    @abstractmethod
    def learn(self, record: LogRecord) -> None:
        """Take in the next record. Both methods are called with the lock held."""

    def catch_up(self, timeout: float) -> None:
        """Return once everything that was written by now is known, and which of it is committed. Raises OttlaError if
        that takes longer."""
        end = self._ends.end(self._topic, timeout)
        with self.lock:
            if not self.lock.wait_for(lambda: self.caught_up and self.position >= end, timeout):
                message = f"{self._topic} was read as far as {self.position}, of {end}: {self.trouble}"
                raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, message, hint="try again")

    def close(self) -> None:
        self._ends.close()

    def work(self) -> None:
        with self.lock:
            self.caught_up = False
            self.forget()
        with closing(self._cluster.open_log(self._topic)) as log:
            first_end = self._ends.end(self._topic, CALL_S)
            while not self.stopping.is_set():
                records = log.poll(_STEP_S)
                with self.lock:
                    for record in records:
                        self.learn(record)
                    self.position = log.position
                    self.caught_up = self.caught_up or self.position >= first_end
                    self.lock.notify_all()
                self.went_well()


def records_of(cluster: Cluster, topic: str, timeout: float) -> Iterator[LogRecord]:
    """Read all records that are in the topic now. Raises OttlaError if nothing comes for `timeout` seconds, or if it
    does not exist."""
    with cluster.open_admin(topic) as admin:
        end = admin.end(topic, timeout)
    with closing(cluster.open_log(topic)) as log:
        deadline_at, former = monotonic() + timeout, 0
        while log.position < end:
            yield from log.poll(_STEP_S)
            if log.position > former:
                deadline_at, former = monotonic() + timeout, log.position
            elif monotonic() > deadline_at:
                raise OttlaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{topic} was read only up to offset {log.position} of {end}"
                )
