"""The responses to members: values, and errors with their messages."""

from __future__ import annotations

from dataclasses import dataclass

from ottla_core.errors import ErrorCode, OttlaError


@dataclass(frozen=True, slots=True)
class SubscribedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The response to a join. Only the leader gets `members`."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple[SubscribedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    protocol_type: str
    protocol: str
    assignment: bytes


class MemberIdRequiredError(OttlaError):
    """The client has to come back with `member_id` (KIP-394), so that a client that gives up on its first try leaves no
    member behind."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED, f"join again as {member_id}")
        self.member_id = member_id


def unknown_member(group: str, member_id: str) -> OttlaError:
    return OttlaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"group {group} has no member {member_id!r}",
        hint="join again; the member was evicted, or the group was deleted",
    )


def fenced_instance(instance_id: str, member_id: str) -> OttlaError:
    return OttlaError(
        ErrorCode.FENCED_INSTANCE_ID,
        f"member {member_id!r} does not have group.instance.id {instance_id!r}: another process joined with it",
        hint="give every process its own group.instance.id",
    )


def illegal_generation(group: str, named: int, current: int) -> OttlaError:
    return OttlaError(
        ErrorCode.ILLEGAL_GENERATION,
        f"generation {named} of group {group} is not current; the current generation is {current}",
        hint="join again; the request for the old generation changed nothing",
    )


def too_large(group: str, size_bytes: int, most_bytes: int) -> OttlaError:
    return OttlaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the members of group {group} and their assignment take {size_bytes} bytes, but a batch in the log holds at "
        f"most {most_bytes}",
        hint="run fewer members, have them subscribe to fewer topics, or split them into several groups",
    )


def rebalance_in_progress(group: str) -> OttlaError:
    return OttlaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group} is rebalancing", hint="join again")


def inconsistent(group: str, reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"the client can't be a member of group {group}: {reason}",
        hint="all members must have an assignor in common (partition.assignment.strategy)",
    )
