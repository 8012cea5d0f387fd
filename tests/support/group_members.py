"""Consumers of a group, each on a thread of its own, and what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

from ottla.consumer.consumer import Consumer
from ottla.consumer.group.listener import Partitions, RebalanceListener
from ottla.errors import OttlaError
from ottla_core.model import TopicPartition

WAIT_S = 20.0


class Diary(RebalanceListener):
    """Notes what a member is told, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, list[TopicPartition]]] = []

    def on_assigned(self, partitions: Partitions) -> None:
        self.entries.append(("assigned", partitions))

    def on_revoked(self, partitions: Partitions) -> None:
        self.entries.append(("revoked", partitions))

    def on_lost(self, partitions: Partitions) -> None:
        self.entries.append(("lost", partitions))


class Member:
    """Iterates over a consumer until it is stopped. `got` are the records, `owned` the partitions as of now."""

    def __init__(self, consumer: Consumer[Any, Any]) -> None:
        self.consumer = consumer
        self.got: list[tuple[str, int, int]] = []
        self.error: OttlaError | None = None
        self._thread = Thread(target=self._run, name=consumer.client_id, daemon=True)
        self._thread.start()

    @property
    def owned(self) -> Sequence[TopicPartition]:
        group = self.consumer._group
        assert group is not None
        return sorted(group.positions())

    def stop(self) -> None:
        """Close it, as its user would."""
        self.consumer.close()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def die(self) -> None:
        """Let it fall silent without a word, as a process that is killed."""
        group = self.consumer._group
        assert group is not None
        group._heartbeats.stop()
        self.consumer._close.detach()
        self.consumer._fetcher.close()
        self.consumer._cluster.close()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        try:
            for record in self.consumer:
                self.got.append((record.topic, record.partition, record.offset))
        except OttlaError as error:
            self.error = error
