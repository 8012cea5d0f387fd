"""Where a member goes on in partitions that it was given: where the group left off, else where it is told to begin."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import Cluster
from ottla.client.list_offsets import list_offsets_or_end
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.options import GroupOptions
from ottla.consumer.start_offsets import stop_offsets
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition

logger = logging.getLogger("ottla.group")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one partition goes on, and in which epoch the record before it was written; `stop` where it ends.

    `topic_id` is the topic's in which it was committed, where the coordinator says. `error` instead where nothing is
    committed and nobody says where to begin.
    """

    offset: int = 0
    epoch: int | None = None
    committed: bool = False
    stop: int | None = None
    error: OttlaError | None = None
    topic_id: TopicId | None = None


Places = dict[TopicPartition, Place]


class PlaceFinder:
    """Asks the coordinator, then leaders; every answer is waited for up to `timeout` seconds. For any thread."""

    def __init__(self, commits: Commits, cluster: Cluster, options: GroupOptions, timeout: float) -> None:
        self._commits: Final = commits
        self._cluster: Final = cluster
        self._options: Final = options
        self._timeout: Final = timeout

    def find(self, partitions: Sequence[TopicPartition]) -> Places:
        """A place for each. Raises where nobody answers."""
        topic_ids: dict[TopicPartition, TopicId] = {}
        committed = self._commits.fetch(partitions, self._timeout, topic_ids)
        fresh = [partition for partition in partitions if partition not in committed]
        begins = self._begins(fresh)
        stops = stop_offsets(self._options.stop, partitions, self._cluster, self._timeout)
        places: Places = {}
        for partition in partitions:
            stop = stops.get(partition)
            if partition in committed:
                at = committed[partition]
                places[partition] = Place(
                    at.offset, at.leader_epoch, committed=True, stop=stop, topic_id=topic_ids.get(partition)
                )
            elif partition in begins:
                places[partition] = Place(begins[partition], stop=stop)
            else:
                places[partition] = Place(error=self._nowhere(partition))
        return places

    def _begins(self, fresh: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        reset = self._options.reset
        if not fresh or reset == "none":
            return {}
        logger.info(
            "group %s has committed nothing for %d partitions, such as %s: they are read from the %s record on "
            "(auto_offset_reset)",
            self._options.group,
            len(fresh),
            fresh[0],
            reset,
        )
        at = EARLIEST_TIMESTAMP if reset == "earliest" else LATEST_TIMESTAMP
        return list_offsets_or_end(self._cluster, dict.fromkeys(fresh, at), timeout=self._timeout)

    def _nowhere(self, partition: TopicPartition) -> OttlaError:
        return error_from_code(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the group {self._options.group!r} has committed nothing for {partition}, and auto_offset_reset is 'none'",
            hint="seek, or say auto_offset_reset='earliest' or 'latest'",
        )
