"""admin.groups: what consumer groups do, how far they are behind and why they rebalanced; reset, kick and delete.

Any broker can name the group-coordinator of a group. A call goes to that coordinator, or if it moves to its successor,
until the deadline.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from ottla.admin import group_descriptions
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.group_info import (
    GroupEvent,
    GroupInfo,
    GroupLag,
    GroupMember,
    GroupSummary,
    OffsetReset,
    ShardStatus,
)
from ottla.admin.group_reset import ResetTarget, check_target, planned
from ottla.admin.measured_lag import measured_lag
from ottla.admin.topics import topic_in
from ottla.client import committed_offsets
from ottla.client.by_partition import OffsetsByPartition
from ottla.client.committed_offsets import Failures
from ottla.client.coordinators import Coordinators
from ottla.client.group_departure import departure
from ottla.client.grouping import grouped
from ottla.client.kafka.apis import DELETE_GROUPS, OFFSET_DELETE
from ottla.client.kafka.exchange import Exchange, raise_failed
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.client.settings import one_of
from ottla.client.units import Duration
from ottla.errors import ErrorCode, OttlaError, config_error, did_you_mean, error_from_code
from ottla.machines.membership import MemberIdentity
from ottla_core.kafka.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from ottla_core.model import TopicPartition
from ottla_core.routing import GROUP
from ottla_core.rpc.parts import in_parts

_NEAREST_S: Final = 2.0
"""How long to wait for the names of other groups, if a group does not exist."""

_NO_MEMBER: Final = MemberIdentity()
"""The identity in a commit that comes from no member of the group."""

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
        listings = self._coordinators.listed(group_descriptions.listing(states), timeout=left_s)
        found = {group.name: group for listing in listings for group in listing.found}
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
        from ottla.admin.private_calls import lag

        deadline, cluster = self._channel.deadline(timeout), self._channel.cluster
        with self._with_hint(group, deadline):
            try:
                return self._coordinators.exchange(group, lag(group, cluster.clock.wall_ms), timeout=deadline.left())
            except OttlaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:
                    raise
                described = self._describe(group, deadline)
                committed = self.committed(group, timeout=deadline.left())
                return measured_lag(cluster, described, committed, timeout=deadline.left())

    def explain(self, group: str, *, timeout: Duration | None = None) -> tuple[GroupEvent, ...]:
        """Return what has happened to the group and why, oldest first: every join, leave, eviction and rebalance.

        The coordinator keeps the last 200 events in memory; if another one takes over, the list starts empty.
        """
        from ottla.admin.private_calls import explanation

        deadline = self._channel.deadline(timeout)
        with self._with_hint(group, deadline):
            return self._coordinators.exchange(group, explanation(group), timeout=deadline.left())

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
        from ottla.admin.private_calls import shard_statuses

        return shard_statuses(self._channel, GROUP, timeout)

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
        requested = {TopicPartition(*at): OffsetAndMetadata(offset) for at, offset in offsets.items()}

        def raise_most(failures: Failures) -> Failures:
            for error in failures.values():
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # another try would not help
                    raise error
            return failures

        try:
            for part in committed_offsets.in_parts(group, requested):
                asked = committed_offsets.commit(group, _NO_MEMBER, part, self._channel.cluster.names)
                for error in self._coordinators.exchange(
                    group, asked.then(raise_most), timeout=deadline.left()
                ).values():
                    raise error
        except OttlaError as error:
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:  # a member has joined meanwhile
                raise non_empty(group, self._members(group, deadline), "committed for") from None
            raise

    def delete(self, group: str, *, timeout: Duration | None = None) -> None:
        """Delete a group and its committed offsets. If it has members, NON_EMPTY_GROUP names them; stop them first."""
        deadline = self._channel.deadline(timeout)

        with self._with_hint(group, deadline, "deleted"):
            self._coordinators.change(
                group, deletion(group), made=ErrorCode.GROUP_ID_NOT_FOUND, timeout=deadline.left()
            )

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

        with self._with_hint(group, deadline, "stripped of its offsets"):
            for part in in_parts(deleted):
                self._coordinators.exchange(group, deletion_of_offsets(group, part), timeout=deadline.left())
        return deleted

    def kick(self, group: str, member: str, *, reason: str = "", timeout: Duration | None = None) -> GroupMember:
        """Remove one member, by its instance id or its member id; the others take over its partitions.

        A member that is still running joins again automatically, so use `kick` for a member that hangs, or for a static
        member that won't return.
        """
        deadline = self._channel.deadline(timeout)
        found = member_in(self.describe(group, timeout=deadline.left()), member)
        asked = departure(group, MemberIdentity(found.member_id, instance_id=found.instance_id), reason or _BY_ADMIN)
        self._coordinators.change(group, asked, made=ErrorCode.UNKNOWN_MEMBER_ID, timeout=deadline.left())
        return found

    def committed(
        self, group: str, *, if_missing: Literal["error", "ok"] = "error", timeout: Duration | None = None
    ) -> dict[TopicPartition, int]:
        """Return the group's committed offsets by partition, in order. Each is the offset of the next record to read.

        Raises GROUP_ID_NOT_FOUND if the group does not exist; with if_missing="ok" the result is empty instead. A group
        begins to exist with its first member or commit; if all members leave before any of them commits, it ceases to
        exist. Raises the error of a partition whose offset can't be read.
        """
        one_of(if_missing, "if_missing", ("error", "ok"))
        deadline = self._channel.deadline(timeout)
        asked = committed_offsets.fetch(group, None, self._channel.cluster.names)
        found = self._coordinators.exchange(group, asked, timeout=deadline.left())
        if not found and if_missing == "error":
            self.describe(group, timeout=deadline.left())
        return by_partition(found)

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
            return self._coordinators.exchange(group, group_descriptions.classic(group), timeout=deadline.left())
        except OttlaError as error:
            if not _is_of_other_type(error, "classic"):
                raise
        try:
            return self._coordinators.exchange(group, group_descriptions.consumer(group), timeout=deadline.left())
        except OttlaError as error:
            raise _of_unknown_type(group) if _is_of_other_type(error, "consumer") else error from None

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


def by_partition(offsets: Offsets) -> dict[TopicPartition, int]:
    """Return the offsets in the order of their partitions. Kafka's coordinators list them in any order."""
    return {partition: offsets[partition].offset for partition in sorted(offsets)}


def deletion(group: str) -> Exchange[None]:
    """Return the exchange that deletes a group."""

    def read(response: DeleteGroupsResponse) -> None:
        raise_failed(response.results[0])

    return Exchange(DELETE_GROUPS, lambda _: DeleteGroupsRequest(groups_names=[group]), read)


def deletion_of_offsets(group: str, partitions: Iterable[TopicPartition]) -> Exchange[None]:
    """Return the exchange that deletes a group's committed offsets in some partitions."""
    in_topic, of_partition = (
        OffsetDeleteRequest.OffsetDeleteRequestTopic,
        OffsetDeleteRequest.OffsetDeleteRequestPartition,
    )
    by_topic = grouped((at.topic, of_partition(partition_index=at.partition)) for at in partitions)
    topics = [in_topic(name=name, partitions=each) for name, each in by_topic.items()]

    def read(response: OffsetDeleteResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                raise_failed(partition)

    return Exchange(OFFSET_DELETE, lambda _: OffsetDeleteRequest(group_id=group, topics=topics), read)


def _is_of_other_type(error: OttlaError, type_: str) -> bool:
    """Return whether the coordinator has the group, but as one of another type. Only the message tells."""
    return error.code == ErrorCode.GROUP_ID_NOT_FOUND and f"not a {type_} group" in error.message


def _of_unknown_type(group: str) -> OttlaError:
    return error_from_code(
        ErrorCode.UNSUPPORTED_VERSION,
        f"the group {group!r} is a share group or a streams group, which ottla can't describe",
        hint="use kafka-groups.sh",
    )
