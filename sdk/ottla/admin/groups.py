"""admin.groups: what consumer groups do, how far they are behind and why they rebalanced; reset, kick and delete.

Any broker can name the group-coordinator of a group. A call goes to that coordinator, or if it moves to its successor,
until the deadline.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.group_info import (
    GroupEvent,
    GroupInfo,
    GroupLag,
    GroupMember,
    GroupSummary,
    OffsetReset,
    ShardStatus,
    event_of,
    info_of,
    lag_of,
    summary_of,
)
from ottla.admin.group_reset import ResetTarget, check_target, planned
from ottla.admin.measured_lag import measured_lag
from ottla.admin.shard_statuses import shard_statuses
from ottla.admin.topics import raise_in_band, topic_in
from ottla.client.by_partition import OffsetsByPartition
from ottla.client.coordinators import Coordinators
from ottla.client.settings import one_of
from ottla.client.units import Duration
from ottla.errors import ErrorCode, OttlaError, config_error, did_you_mean, error_from_code
from ottla_core.model import TopicPartition
from ottla_core.routing import GROUP
from ottla_core.rpc.parts import commit_in_parts, in_parts
from ottla_proto import group_pb2 as pb
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Group, Method

_NEAREST_S: Final = 2.0
"""How long to wait for the names of other groups, if a group does not exist."""

_NO_MEMBER: Final = -1
"""The generation of a commit that comes from no member."""

_BY_ADMIN: Final = "removed by an administrator"

Summaries = list[GroupSummary]
ShardStatuses = list[ShardStatus]


class Groups:
    """The consumer groups of a cluster. `timeout` limits a whole method call; the default is request_timeout.

    If the group does not exist, every method raises GROUP_ID_NOT_FOUND with the nearest names.
    """

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel
        self._coordinators = Coordinators(channel.cluster)

    # ---- look -------------------------------------------------------------------------------------------------------

    def list(self, *, states: Sequence[str] = (), timeout: Duration | None = None) -> Summaries:
        """Return all groups, by name, or only those in `states`.

        The states are Empty, PreparingRebalance, CompletingRebalance and Stable, and of consumer groups Empty,
        Assigning, Reconciling and Stable. The list is complete, or an error is raised: while a shard has no
        coordinator, or is loading, the call waits.
        """
        left_s = self._channel.deadline(timeout).left()
        responses = self._coordinators.listed(Group.LIST_GROUPS, pb.ListGroupsRequest(states=states), timeout=left_s)
        found = {group.group: summary_of(group) for response in responses for group in response.groups}
        return [found[name] for name in sorted(found)]

    def describe(self, group: str, *, timeout: Duration | None = None) -> GroupInfo:
        """Return the group's state, its members and their assigned partitions."""
        deadline = self._channel.deadline(timeout)
        with self._with_hint(group, deadline):
            return self._describe(group, deadline)

    def members(self, group: str, *, timeout: Duration | None = None) -> tuple[GroupMember, ...]:
        """Return the members of the group, classic ones in the order in which they joined, and others by their ids."""
        return self.describe(group, timeout=timeout).members

    def lag(self, group: str, *, timeout: Duration | None = None) -> GroupLag:
        """Return how far the group is behind in each partition, in records and in seconds.

        The ends of the partitions are as they were at most a second before, and what is committed is as of now.
        Kafka's coordinators can't tell this, so there the client compares offsets: `seconds` is None unless it is 0.
        """
        deadline = self._channel.deadline(timeout)
        request = pb.LagRequest(group=group)
        with self._with_hint(group, deadline):
            try:
                response = self._coordinators.call(group, Group.LAG, request, timeout=deadline.left())
            except OttlaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                described = self._describe(group, deadline)
                committed = self.committed(group, timeout=deadline.left())
                return measured_lag(self._channel.cluster, described, committed, timeout=deadline.left())
        return lag_of(group, response.partitions, self._channel.cluster.clock.wall_ms())

    def explain(self, group: str, *, timeout: Duration | None = None) -> tuple[GroupEvent, ...]:
        """Return what has happened to the group and why, oldest first: every join, leave, eviction and rebalance.

        The coordinator keeps the last 200 events in memory; if another one takes over, the list starts empty.
        """
        deadline = self._channel.deadline(timeout)
        request = pb.ExplainGroupRequest(group=group)
        with self._with_hint(group, deadline):
            response = self._coordinators.call(group, Group.EXPLAIN_GROUP, request, timeout=deadline.left())
        return tuple(event_of(event) for event in response.events)

    def exists(self, group: str, *, timeout: Duration | None = None) -> bool:
        """Return whether the group exists, which means that it has members or committed offsets."""
        try:
            self._describe(group, self._channel.deadline(timeout))
        except OttlaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return False
            if error.code != ErrorCode.UNSUPPORTED_VERSION:  # it exists, and can't be described
                raise
        return True

    def shards(self, *, timeout: Duration | None = None) -> ShardStatuses:
        """Return the state of each shard, by its number.

        While a shard is not served, its groups can't make progress.
        """
        return shard_statuses(self._channel, GROUP, Group.SHARDS, timeout)

    # ---- change -----------------------------------------------------------------------------------------------------

    def reset(
        self,
        group: str,
        *,
        to: ResetTarget | None = None,
        shift: int | None = None,
        topics: Sequence[str] = (),
        partitions: Sequence[tuple[str, int]] = (),
        if_missing: Literal["error", "ok"] = "error",
        dry_run: bool = True,
        timeout: Duration | None = None,
    ) -> tuple[OffsetReset, ...]:
        """Move committed offsets. A dry run, the default, only returns the new offsets.

        `to` is "earliest", "latest", an offset, a time (the first record at or after it) or a timedelta from now (-1 h:
        an hour ago); `shift` is a number of records forwards, or backwards if it is negative. It moves all committed
        offsets of the group, or all partitions of `topics`, or only `partitions`. An offset outside a partition becomes
        its nearest end. With if_missing="ok" and `topics`, you can set the first offsets of a new group.

        A group that has members can't be reset (NON_EMPTY_GROUP names them): stop them first.
        """
        one_of(if_missing, "if_missing", ("error", "ok"))
        check_target(to, shift)
        deadline = self._channel.deadline(timeout)
        committed = self._resettable(group, if_missing, deadline)
        chosen = self._chosen(group, committed, topics, partitions, deadline)
        resets = planned(self._channel.cluster, chosen, committed, to, shift, timeout=deadline.left())
        if resets and not dry_run:
            self.commit(group, {TopicPartition(r.topic, r.partition): r.after for r in resets}, timeout=deadline.left())
        return resets

    def commit(self, group: str, offsets: OffsetsByPartition, *, timeout: Duration | None = None) -> None:
        """Commit offsets for a group without members, for example so that a program with its own reader has a lag.

        `offsets` are those of the next records to read. The first commit creates the group. If the group has members,
        the commit fails (NON_EMPTY_GROUP names them).
        """
        deadline = self._channel.deadline(timeout)
        whole = pb.CommitOffsetsRequest(group=group, generation=_NO_MEMBER)
        requested = [pb.OffsetToCommit(topic=p[0], partition=p[1], offset=offset) for p, offset in offsets.items()]

        def check(response: pb.CommitOffsetsResponse, repeated: bool) -> None:
            for outcome in response.partitions:
                if outcome.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # another try would not help
                    raise_in_band(outcome.error)

        try:
            for part in commit_in_parts(whole, requested):
                response = self._coordinators.call(
                    group, Group.COMMIT_OFFSETS, part, timeout=deadline.left(), check=check
                )
                for outcome in response.partitions:
                    raise_in_band(outcome.error)
        except OttlaError as error:
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:  # a member has joined meanwhile
                raise non_empty(group, self._members(group, deadline), "committed for") from None
            raise

    def delete(self, group: str, *, timeout: Duration | None = None) -> None:
        """Delete a group and its committed offsets. If it has members, NON_EMPTY_GROUP names them; stop them first."""
        deadline = self._channel.deadline(timeout)

        def check(response: pb.DeleteGroupsResponse, repeated: bool) -> None:
            error = response.groups[0].error
            if not (repeated and error.code == ErrorCode.GROUP_ID_NOT_FOUND):
                raise_in_band(error)

        request = pb.DeleteGroupsRequest(groups=[group])
        with self._with_hint(group, deadline, "deleted"):
            self._coordinators.call(group, Group.DELETE_GROUPS, request, timeout=deadline.left(), check=check)

    def delete_offsets(
        self,
        group: str,
        *topics: str,
        partitions: Sequence[tuple[str, int]] = (),
        timeout: Duration | None = None,
    ) -> tuple[TopicPartition, ...]:
        """Delete the group's committed offsets in `topics`, or only in `partitions`, and return what was deleted.

        In these partitions, later members start as their auto.offset.reset says. While members read a topic, its
        offsets can't be deleted (GROUP_SUBSCRIBED_TO_TOPIC).
        """
        if not topics and not partitions:
            raise config_error("no topic or partition is given", hint="pass one, or delete the whole group")
        deadline = self._channel.deadline(timeout)
        named = {TopicPartition(*partition) for partition in partitions}
        committed = self.committed(group, timeout=deadline.left())
        deleted = tuple(p for p in committed if p.topic in topics or p in named)

        def check(response: pb.DeleteOffsetsResponse, repeated: bool) -> None:
            for outcome in response.partitions:
                raise_in_band(outcome.error)

        with self._with_hint(group, deadline, "stripped of its offsets"):
            for part in in_parts(deleted):
                request = pb.DeleteOffsetsRequest(group=group, partitions=_partitions(part))
                self._coordinators.call(group, Group.DELETE_OFFSETS, request, timeout=deadline.left(), check=check)
        return deleted

    def kick(self, group: str, member: str, *, reason: str = "", timeout: Duration | None = None) -> GroupMember:
        """Remove one member, by its instance id or its member id; the others take over its partitions.

        A member that is still running joins again automatically, so use `kick` for a member that hangs, or for a static
        member that won't return.
        """
        deadline = self._channel.deadline(timeout)
        found = member_in(self.describe(group, timeout=deadline.left()), member)
        leaver = pb.Leaver(
            member=pb.Member(member_id=found.member_id, instance_id=found.instance_id), reason=reason or _BY_ADMIN
        )

        def check(response: pb.LeaveResponse, repeated: bool) -> None:
            error = response.members[0].error
            if not (repeated and error.code == ErrorCode.UNKNOWN_MEMBER_ID):
                raise_in_band(error)

        request = pb.LeaveRequest(group=group, members=[leaver])
        self._coordinators.call(group, Group.LEAVE, request, timeout=deadline.left(), check=check)
        return found

    def committed(
        self, group: str, *, if_missing: Literal["error", "ok"] = "error", timeout: Duration | None = None
    ) -> dict[TopicPartition, int]:
        """Return the group's committed offsets by partition, in order. Each is the offset of the next record to read.

        Raises GROUP_ID_NOT_FOUND if the group does not exist; with if_missing="ok" the result is empty instead. A group
        begins to exist with its first member or commit; if all members leave before any of them commits, it ceases to
        exist.
        """
        one_of(if_missing, "if_missing", ("error", "ok"))
        deadline = self._channel.deadline(timeout)
        request = pb.FetchOffsetsRequest(group=group, all=True)
        response = self._coordinators.call(group, Group.FETCH_OFFSETS, request, timeout=deadline.left())
        if not response.offsets and if_missing == "error":
            self.describe(group, timeout=deadline.left())
        return by_partition((TopicPartition(p.topic, p.partition), p.offset) for p in response.offsets)

    # ---- failures ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _with_hint(self, group: str, deadline: Deadline, change: str = "") -> Iterator[None]:
        """Add to an error what helps: the nearest names, or the members that prevent the `change`."""
        try:
            yield
        except OttlaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise self._unknown(group) from None
            if error.code == ErrorCode.NON_EMPTY_GROUP:
                raise non_empty(group, self._members(group, deadline), change) from None
            raise

    def _describe(self, group: str, deadline: Deadline) -> GroupInfo:
        """Describe a group of either type. It is requested as a classic one first, because every cluster has those."""
        try:
            return self._described(Group.DESCRIBE_GROUPS, group, deadline)
        except OttlaError as error:
            if not _is_of_other_type(error, "classic"):
                raise
        try:
            return self._described(Client.DESCRIBE_CONSUMER_GROUPS, group, deadline)
        except OttlaError as error:
            raise _of_unknown_type(group) if _is_of_other_type(error, "consumer") else error from None

    def _described(
        self, method: Method[pb.DescribeGroupsRequest, pb.DescribeGroupsResponse], group: str, deadline: Deadline
    ) -> GroupInfo:
        def check(response: pb.DescribeGroupsResponse, repeated: bool) -> None:
            raise_in_band(response.groups[0].error)

        request = pb.DescribeGroupsRequest(groups=[group])
        response = self._coordinators.call(group, method, request, timeout=deadline.left(), check=check)
        return info_of(response.groups[0])

    def _members(self, group: str, deadline: Deadline) -> Sequence[GroupMember]:
        """Return the members of a group that has some. Those of share groups and streams groups are not known."""
        try:
            return self._describe(group, deadline).members
        except OttlaError as error:
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise
            return ()

    def _unknown(self, group: str) -> OttlaError:
        try:
            names = [known.name for known in self.list(timeout=_NEAREST_S)]
        except OttlaError:
            names = []
        hint = did_you_mean(group, names, "a group is created when its first consumer joins")
        return error_from_code(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {group!r} does not exist", hint=hint)

    # ---- the steps of a reset ---------------------------------------------------------------------------------------

    def _resettable(self, group: str, if_missing: str, deadline: Deadline) -> dict[TopicPartition, int]:
        """Return the committed offsets. Raises NON_EMPTY_GROUP: members would go on, and commit over the reset."""
        if if_missing == "ok" and not self.exists(group, timeout=deadline.left()):
            return {}
        members = self.describe(group, timeout=deadline.left()).members
        if members:
            raise non_empty(group, members, "reset")
        return self.committed(group, timeout=deadline.left())

    def _chosen(
        self,
        group: str,
        committed: dict[TopicPartition, int],
        topics: Sequence[str],
        partitions: Sequence[tuple[str, int]],
        deadline: Deadline,
    ) -> Sequence[TopicPartition]:
        """Return the partitions to move. Raises UnknownTopicError, and ConfigError if none is named or committed."""
        if not topics and not partitions:
            if not committed:
                raise config_error(f"group {group} has no committed offsets", hint="name the topics to set offsets for")
            return sorted(committed)
        view = self._channel.cluster.fetch_metadata(topics, timeout=deadline.left())
        counts = {topic: len(topic_in(self._channel, view, topic).partitions) for topic in topics}
        named = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
        return sorted(named | {TopicPartition(*partition) for partition in partitions})


def non_empty(group: str, members: Sequence[GroupMember], change: str) -> OttlaError:
    """Return a NON_EMPTY_GROUP error that names the members to stop before the group can be `change`."""
    shown = ", ".join(f"{m.name} at {m.host}" if m.host else m.name for m in members[:5])
    more = f" and {len(members) - 5} more" if len(members) > 5 else ""
    named = f": {shown}{more}" if members else ""
    return error_from_code(
        ErrorCode.NON_EMPTY_GROUP,
        f"group {group} can't be {change} while it has members{named}",
        hint="stop the members first; a member that does not leave is removed after its session timeout",
    )


def member_in(group: GroupInfo, name: str) -> GroupMember:
    """Return the member with that instance id or member id. Raises UNKNOWN_MEMBER_ID with the nearest ones."""
    for member in group.members:
        if name in (member.instance_id, member.member_id):
            return member
    names = [member.name for member in group.members]
    near = difflib.get_close_matches(name, names, n=3) or names[:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "the group has no members"
    raise error_from_code(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.name} has no member {name!r}", hint=hint)


def by_partition(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """Return offsets in the order of their partitions. Kafka's coordinators list them in no order."""
    return dict(sorted(offsets))


def _partitions(partitions: Sequence[TopicPartition]) -> Sequence[pb.GroupPartition]:
    return [pb.GroupPartition(topic=p.topic, partition=p.partition) for p in partitions]


def _is_of_other_type(error: OttlaError, type_: str) -> bool:
    """Return whether the coordinator has the group, but as one of another type. Only the message tells."""
    return error.code == ErrorCode.GROUP_ID_NOT_FOUND and f"not a {type_} group" in error.message


def _of_unknown_type(group: str) -> OttlaError:
    return error_from_code(
        ErrorCode.UNSUPPORTED_VERSION,
        f"the group {group!r} is a share group or a streams group, which ottla can't describe",
        hint="use kafka-groups.sh",
    )
