"""The work of a group's leader for all members: it assigns partitions, and notices when it has to assign them again.

The coordinator knows nothing about partitions (rule 47), so this module has to detect a wrong assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from ottla.machines.assignors import Assignments, Assignor, Subscriber
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    UNKNOWN_GENERATION,
    MemberAssignment,
    Subscription,
    encode_subscription,
)
from ottla_core.kafka_formats.consumer_protocol import encode_assignment as encode
from ottla_core.model import TopicPartition
from ottla_core.plural import counted

NO_RACK = ""


def offered(
    assignors: Iterable[Assignor],
    topics: Set[str],
    held: Sequence[TopicPartition],
    former: Sequence[TopicPartition],
    generation: int,
    rack: str = NO_RACK,
) -> dict[str, bytes]:
    """Return a member's subscription for each assignor, in the order of preference.

    `held` are the partitions that it still reads, and `former` those of its last assignment, in `generation`. A member
    without partitions sends no generation, so a static member that returns sends the same data as before (rule 45).
    """
    names = tuple(sorted(topics))
    subscription = Subscription(
        names, owned=tuple(sorted(held)), generation=generation if held else UNKNOWN_GENERATION, rack=rack or None
    )
    return {
        assignor.name: encode_subscription(
            subscription._replace(user_data=assignor.user_data(sorted(former), generation))
        )
        for assignor in assignors
    }


def subscribed_topics(members: Iterable[Subscriber]) -> list[str]:
    """Return all topics that at least one member of the group reads, sorted by name."""
    return sorted({topic for member in members for topic in member.subscription.topics})


def lead(assignor: Assignor, partitions_of: Mapping[str, int], members: Sequence[Subscriber]) -> Assignments:
    """Assign the partitions to members.

    Raises INCONSISTENT_GROUP_PROTOCOL if the assignor makes an illegal assignment.
    """
    made = assignor.assign(partitions_of, members)
    check_assignments(assignor.name, made, partitions_of, members)
    return {member.member_id: list(made.get(member.member_id, ())) for member in members}


def check_assignments(
    name: str, made: Assignments, partitions_of: Mapping[str, int], members: Sequence[Subscriber]
) -> None:
    """Raise if a partition has two owners, does not exist, or goes to a member that does not read its topic."""
    topics_of = {member.member_id: frozenset(member.subscription.topics) for member in members}
    owner_of: dict[TopicPartition, str] = {}
    for member_id, partitions in made.items():
        if member_id not in topics_of:
            raise _wrong(name, f"returned a member {member_id!r} that is not in the group")
        for partition in partitions:
            if not 0 <= partition.partition < partitions_of.get(partition.topic, 0):
                raise _wrong(name, f"assigned {partition}, which does not exist")
            if partition.topic not in topics_of[member_id]:
                raise _wrong(name, f"assigned {partition} to {member_id!r}, which does not subscribe to that topic")
            if partition in owner_of:
                raise _wrong(name, f"assigned {partition} to both {owner_of[partition]!r} and {member_id!r}")
            owner_of[partition] = member_id


def left_out(
    made: Assignments, held: Iterable[TopicPartition], partitions_of: Mapping[str, int]
) -> list[TopicPartition]:
    """Return the partitions that no member reads: they are unassigned, and no member holds them and has to give them
    up."""
    assigned = {partition for partitions in made.values() for partition in partitions} | set(held)
    existing = (TopicPartition(topic, number) for topic, count in partitions_of.items() for number in range(count))
    return sorted(partition for partition in existing if partition not in assigned)


def encode_assignments(made: Assignments) -> dict[str, bytes]:
    """Encode assignments by member id, as SyncGroup carries them."""
    return {member_id: encode(MemberAssignment(tuple(partitions))) for member_id, partitions in made.items()}


def changed_topics(known: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Return why a leader has to assign partitions again: its topics then and now; "" if nothing changed.

    A topic that is missing for a moment is not deleted, because brokers may be behind.
    """
    for topic, count in now.items():
        if count != known.get(topic, 0):
            return f"{topic} has {counted(count, 'partition')}, but the last assignment covered {known.get(topic, 0)}"
    return ""


def _wrong(name: str, problem: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"the assignor {name!r} {problem}",
        hint="fix its assign(): each partition of a subscribed topic must go to exactly one subscriber of the topic",
    )
