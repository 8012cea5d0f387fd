"""How far a group is behind in a cluster whose coordinators can't tell: Apache Kafka's.

The client compares the committed offsets with the ends of the partitions. It does not read records, so the age of the
oldest unread one is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.admin.group_info import GroupInfo, GroupLag, GroupMember, PartitionLag
from ottla.client.cluster import ClusterClient
from ottla.client.list_offsets import OffsetAndTimestamp, list_offsets, no_leader
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndTimestamp | None]


def measured_lag(
    cluster: ClusterClient, group: GroupInfo, committed: Mapping[TopicPartition, int], *, timeout: float
) -> GroupLag:
    """Return the lag in each partition that a member reads or for which an offset is committed. A partition without a
    leader has an error of its own. Raises what `list_offsets` raises."""
    until = cluster.clock.monotonic() + timeout
    members = {partition: member for member in group.members for partition in member.partitions}
    partitions = sorted(committed.keys() | members.keys())
    view = cluster.fetch_metadata(dict.fromkeys(partition.topic for partition in partitions), timeout=timeout)
    led = [partition for partition in partitions if partition in view.routes]

    def at(when: int, some: Iterable[TopicPartition]) -> Offsets:
        left_s = max(0.001, until - cluster.clock.monotonic())
        return list_offsets(cluster, dict.fromkeys(some, when), timeout=left_s)

    # The ends come last, so that no partition begins behind its end.
    starts, ends = at(EARLIEST_TIMESTAMP, led), at(LATEST_TIMESTAMP, led)

    def lag(partition: TopicPartition) -> PartitionLag:
        who = _named(members.get(partition))
        offset = committed.get(partition)
        start, end = starts.get(partition), ends.get(partition)
        if start is None or end is None:
            error = no_leader(view, partition)
            return PartitionLag(*partition, offset, None, None, None, None, None, *who, error)
        records = None if offset is None else max(0, end.offset - max(offset, start.offset))
        seconds = 0.0 if records == 0 else None
        return PartitionLag(*partition, offset, start.offset, end.offset, records, seconds, None, *who)

    return GroupLag(group.name, tuple(lag(partition) for partition in partitions))


def _named(member: GroupMember | None) -> tuple[str, str, str]:
    return ("", "", "") if member is None else (member.member_id, member.client_id, member.host)
