"""What the SDK raises: one tree under OttlaError, by what a caller can do about it.

Every error has `.code` (Kafka's number, `ErrorCode`), `.message`, `.hint` (one sentence on what to do), `.broker` (the
address that answered, or "") and `.retriable`. The SDK has retried what is retriable by itself for as long as its
deadline allowed, so a caller that sees a RetriableError has run out of time, not out of luck.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError, is_retriable

__all__ = [
    "AuthorizationError",
    "BufferFullError",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigError",
    "ConnectError",
    "DeliveryError",
    "ErrorCode",
    "FatalError",
    "FencedError",
    "FencedInstanceError",
    "HandlerError",
    "NotABrokerError",
    "OffsetOutOfRangeError",
    "OttlaError",
    "RebalanceInProgressError",
    "RecordTooLargeError",
    "RejectError",
    "RetriableError",
    "SerializationError",
    "TimeoutError",
    "TopicExistsError",
    "TransactionAborted",
    "TruncationError",
    "UnknownTopicError",
    "WakeupError",
    "error_from_code",
]


class RetriableError(OttlaError):
    """The same call may succeed later: a leader moved, a broker is away, a replica is behind."""


class FatalError(OttlaError):
    """The same call will fail again: the request, the record or the cluster's settings have to change first."""


class ConfigError(FatalError, ValueError):
    """An argument or a config that can't be: raised where it is given, before anything is sent."""


class ConcurrentUseError(FatalError):
    """Two threads use one consumer at once. `wakeup`, `close` and `metrics` are for any thread, all else is for one."""


class WakeupError(OttlaError):
    """`wakeup()` was called: the reading was interrupted, nothing is lost, and the next call continues."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NONE, "the consumer was woken up", hint="read on, or close it")


class SerializationError(FatalError, ValueError):
    """A key or value that its serializer or deserializer does not take.

    Reading, `topic`, `partition` and `offset` say which record it was; writing, they are `topic`, None and None.
    """

    def __init__(
        self, message: str, *, hint: str = "", topic: str = "", partition: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, hint=hint)
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset


class AuthorizationError(FatalError):
    """The principal may not do this."""


class TimeoutError(RetriableError, builtins.TimeoutError):  # noqa: A001 - users write `except ottla.TimeoutError`
    """The deadline passed. What was asked for may have happened all the same, unless the message says otherwise."""


class BufferFullError(TimeoutError):
    """The producer's buffer stayed full for `max_block`: records are made faster than the brokers take them."""


class ConnectError(RetriableError, ConnectionError):
    """No broker could be reached, or the connection broke while a call was open."""


class NotABrokerError(FatalError, ConnectionError):
    """Something else than a broker's gRPC port answers at the address: a Kafka, HTTP or TLS port."""


class UnknownTopicError(RetriableError):
    """No such topic or partition, as far as the brokers that were asked know."""


class TopicExistsError(FatalError):
    """The topic exists already; `if_exists="ok"` takes it as it is."""


class RecordTooLargeError(FatalError):
    """One record, or one batch, is larger than the producer or the topic allows."""


class OffsetOutOfRangeError(FatalError):
    """The offset is not, or no longer, in the log, and `auto_offset_reset` says not to go elsewhere."""


class TruncationError(OffsetOutOfRangeError):
    """Records that a consumer has read are gone: the partition's new leader never had them (KIP-320).

    `offset` is where the consumer is, `divergent_offset` where the new log left what was read, None if unknown.
    """

    def __init__(self, message: str, *, offset: int, divergent_offset: int | None, hint: str = "") -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message, hint=hint)
        self.offset: Final = offset
        self.divergent_offset: Final = divergent_offset


class CommitFailedError(FatalError):
    """Offsets were not committed: the group has rebalanced meanwhile, without the consumer that wanted to.

    Its partitions may be others' by now, who read again from the last commit. Reading on lets it join again.
    """


class RebalanceInProgressError(FatalError):
    """Offsets can't be committed before the group has rebalanced: read on, so that it can, then commit again."""


class FencedInstanceError(FatalError):
    """Another consumer has taken this one's `group_instance_id`: only one of them may have it."""


class TransactionAborted(FatalError):  # noqa: N818 - Kafka's word, and what has happened
    """A transaction was not committed, and never will be: none of its records and offsets count.

    `commit_transaction()` raises it where `abort_transaction()` has yet to be called, and a `with` block when that is
    done: the next transaction may begin, with the same work.
    """


class FencedError(FatalError):
    """Another producer has begun with this one's `transactional_id`: this one can't write any more.

    Its open transaction was aborted. Close it; only one of them may have the id.
    """


class RejectError(FatalError):
    """What a handler of an App raises for a record that no other attempt would mend: to the dead letters at once."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, hint=hint)


class HandlerError(FatalError):
    """A handler of an App failed for good, and there are no dead letters to take the record: the App has stopped.

    `topic`, `partition` and `offset` say which record it was, `attempts` how often it was tried. `__cause__` is what
    the handler raised last, or why the dead letter was not written.
    """

    def __init__(
        self, code: int, message: str, *, hint: str, topic: str, partition: int, offset: int, attempts: int
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset
        self.attempts: Final = attempts


class DeliveryError(RetriableError):
    """Records were not delivered and their results were not read; `failed` says how many.

    Raised by `flush()`, `close()` and the end of a `with` block. `__cause__` is the first failure.
    """

    def __init__(self, code: int, message: str, *, failed: int, hint: str = "") -> None:
        super().__init__(code, message, hint=hint)
        self.failed: Final = failed


_CLASSES: Final[dict[int, type[OttlaError]]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicError,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExistsError,
    ErrorCode.REQUEST_TIMED_OUT: TimeoutError,
    ErrorCode.NETWORK_EXCEPTION: ConnectError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgressError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceError,
    ErrorCode.PRODUCER_FENCED: FencedError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAborted,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: ConfigError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.INVALID_CONFIG: ConfigError,
    ErrorCode.INVALID_SESSION_TIMEOUT: ConfigError,
    ErrorCode.INVALID_GROUP_ID: ConfigError,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ConfigError,
    ErrorCode.INVALID_REQUIRED_ACKS: ConfigError,
    ErrorCode.INVALID_TOPIC_EXCEPTION: ConfigError,
    ErrorCode.INVALID_PARTITIONS: ConfigError,
    ErrorCode.INVALID_REPLICATION_FACTOR: ConfigError,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: ConfigError,
}

_HINTS: Final[dict[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create it with Admin().topics.create(…) or check the name",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records or batches, or raise the topic's max.message.bytes",
    ErrorCode.NETWORK_EXCEPTION: "check that the broker runs and that its address is right",
    ErrorCode.REQUEST_TIMED_OUT: "the broker is overloaded or away; it may have carried out the request",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader moved and the new one was not found in time",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader; see which brokers are down",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few in-sync replicas for acks=all; see which brokers are down",
    ErrorCode.NOT_CONTROLLER: "no controller answered in time; see whether one is running",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has used its producer id; the next records get another one",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "see whether a group-coordinator is running",
    ErrorCode.REBALANCE_IN_PROGRESS: "read on, so that the rebalance can end, then commit again",
    ErrorCode.FENCED_INSTANCE_ID: "give every consumer a group_instance_id of its own",
    ErrorCode.PRODUCER_FENCED: "close this producer; give each producer a transactional_id of its own",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower transaction_timeout, or raise the txn-coordinator's "
    "transaction.max.timeout.ms",
    ErrorCode.OFFSET_OUT_OF_RANGE: "seek to an offset that is there, or set auto_offset_reset",
}


def error_from_code(code: int, message: str, *, hint: str = "", broker: str = "") -> OttlaError:
    """The subclass that fits Kafka's `code`, with a hint where neither the message nor the caller gives one."""
    fallback = RetriableError if is_retriable(code) else FatalError
    if not hint and ";" not in message:  # a service's own hint comes within its message
        hint = _HINTS.get(code, "")
    return _CLASSES.get(code, fallback)(code, message or _name(code), hint=hint, broker=broker)


def from_core(error: OttlaError, *, broker: str = "") -> OttlaError:
    """The SDK's subclass for an error of the core: of the transport, or carried in a response."""
    if isinstance(error, RetriableError | FatalError):
        return error
    return error_from_code(error.code, error.message, hint=error.hint, broker=broker or error.broker)


def config_error(message: str, *, hint: str = "") -> ConfigError:
    """A ConfigError with Kafka's INVALID_CONFIG."""
    return ConfigError(ErrorCode.INVALID_CONFIG, message, hint=hint)


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """A hint: the nearest of `names`, `otherwise` for want of them. `name`, which may have come since, is no hint."""
    from difflib import get_close_matches  # only who errs waits for its import

    near = get_close_matches(name, [known for known in names if known != name], n=3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
