"""The effects of an owner, its limits, and the errors that are its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla_core.coordination.shard_log import Call
from ottla_core.errors import ErrorCode, OttlaError


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """`unproved_s` is a third of the shortest session timeout (rule 7). `append_s` is Kafka's
    offsets.commit.timeout.ms: clients wait this long for a batch, which is sent for longer. `call_s` is the time of the
    first sending. Later ones take up to twice as much."""

    unproved_s: float = 2.0
    append_s: float = 5.0
    call_s: float = 1.0
    leisure_s: float = 0.02
    retry_s: float = 0.1
    retry_most_s: float = 1.0
    max_batch_bytes: int = 1_000_000  # below message.max.bytes of the internal topics
    max_waiting: int = 10_000  # for one shard
    max_waiting_bytes: int = 64 << 20  # for all shards of a process
    loads_at_once: int = 4


@dataclass(frozen=True, slots=True)
class Send:
    """Carry the call to the log. Its result comes back within `timeout_s` as `on_result` with this number."""

    number: int
    call: Call
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Respond:
    """Respond to a request. Every token gets exactly one `Respond` or `RespondError`."""

    token: Any
    response: Any


@dataclass(frozen=True, slots=True)
class RespondError:
    """Respond with an error. Without a token, it reports that one of the owner's own decisions, such as a timer's, was
    rejected."""

    token: Any
    error: Exception


@dataclass(frozen=True, slots=True)
class Perform:
    """Carry out an effect of the service's own, now that its cause is durable."""

    effect: Any


@dataclass(frozen=True, slots=True)
class ReportTrouble:
    """Report that a fence or a load makes no progress, and is tried again, so that operators know the reason."""

    trouble: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The last effect. `needs_epoch` says that the shard has no other owner, as far as this one knows, and needs a new
    epoch."""

    reason: str
    needs_epoch: bool


Effect: TypeAlias = Send | Respond | RespondError | Perform | ReportTrouble | Leave


def not_coordinator() -> OttlaError:
    return OttlaError(
        ErrorCode.NOT_COORDINATOR,
        "this coordinator does not own the shard",
        hint="send the request to the shard's owner",
    )


def loading() -> OttlaError:
    return OttlaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the shard is being loaded", hint="try again")


def crowded() -> OttlaError:
    return OttlaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests are waiting for the shard", hint="try again"
    )


def late(obstacle: str) -> OttlaError:
    """Return the error for a request whose round the log has not confirmed in time. `obstacle` is the reason that the
    log gave last, or ""."""
    message = "the change may have been made, but the shard's log did not confirm it in time"
    reason = f": {obstacle}" if obstacle else ""
    return OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{message}{reason}", hint="try again")


def superseded() -> OttlaError:
    return OttlaError(ErrorCode.REQUEST_TIMED_OUT, "a retry of this request has superseded it")
