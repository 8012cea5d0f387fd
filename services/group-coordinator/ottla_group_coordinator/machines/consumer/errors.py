"""The errors of the consumer protocol, with their messages."""

from __future__ import annotations

from ottla_core.errors import ErrorCode, OttlaError


def invalid(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REQUEST, message, hint=hint)


def no_consumer_group(group: str) -> OttlaError:
    return OttlaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"there is no consumer group {group}",
        hint="join with member epoch 0; the group was deleted, or its members use the classic protocol",
    )


def fenced_epoch(group: str, member_id: str, named: int, current: int) -> OttlaError:
    return OttlaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member {member_id!r} of group {group} is at epoch {current}, but its request has epoch {named}",
        hint="give up all partitions and join again with epoch 0",
    )


def stale_epoch(group: str, member_id: str, named: int, current: int) -> OttlaError:
    return OttlaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"member {member_id!r} of group {group} is at epoch {current}, but its request has epoch {named}",
        hint="try again with the epoch of the last heartbeat's response",
    )


def unreleased(instance_id: str, member_id: str) -> OttlaError:
    return OttlaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"group.instance.id {instance_id!r} belongs to member {member_id!r}, which has not left",
        hint="give every process its own group.instance.id, or wait for the session timeout of the former process",
    )


def no_further_epoch(group: str) -> OttlaError:
    return OttlaError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"group {group} has reached the largest possible epoch",
        hint="stop all of its members and start them again; committed offsets are kept",
    )


def unsupported_assignor(name: str, known: tuple[str, ...]) -> OttlaError:
    return OttlaError(
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        f"there is no assignor {name[:100]!r}",
        hint=f"set group.remote.assignor to one of: {', '.join(known)}",
    )


def full(group: str, members: int) -> OttlaError:
    return OttlaError(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"group {group} has {members} members, which is the maximum",
        hint="raise group.consumer.max.size, or run fewer members",
    )


def invalid_regex(pattern: str, reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"{pattern[:100]!r} is not a usable regular expression: {reason}",
        hint="use an expression in RE2 syntax that matches whole topic names",
    )


def refused_regex(reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        reason,
        hint="use a simpler expression, or one that matches fewer topics",
    )


def too_much(group_id: str, member_id: str, partitions: int, most_bytes: int) -> OttlaError:
    return OttlaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"member {member_id!r} of group {group_id} is to have {partitions} partitions, which do not fit into a "
        f"record of {most_bytes} bytes",
        hint="run more members, or subscribe to fewer topics",
    )
