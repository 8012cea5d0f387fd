"""The errors that the SDK raises: one tree under OttlaError, arranged by what a caller can do about them.

Every error has `.code` (Kafka's number, `ErrorCode`), `.message`, `.hint` (one sentence on what to do), `.broker` (the
address that answered, or "") and `.retriable`. The SDK itself retries retriable errors until its deadline, so a caller
that sees a RetriableError has run out of time, not out of luck.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError, is_retriable

__all__ = [
    "AuthenticationError",
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
    "UnreadableBatchError",
    "WakeupError",
    "error_from_code",
]


class RetriableError(OttlaError):
    """The same call may succeed later; the cause is temporary, such as a moved leader or a broker that is down."""


class FatalError(OttlaError):
    """The same call will fail again until the request, the record or the cluster's settings change."""


class ConfigError(FatalError, ValueError):
    """An argument or a config is not valid.

    The call that takes the argument raises it before sending anything.
    """


class ConcurrentUseError(FatalError):
    """Two threads used one consumer at the same time. Only `wakeup`, `close` and `metrics` are thread-safe."""


class WakeupError(OttlaError):
    """`wakeup()` has interrupted a read. No record is lost, and the next read continues."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NONE, "the consumer was woken up", hint="keep reading, or close the consumer")


class SerializationError(FatalError, ValueError):
    """A serializer or deserializer rejected a key or value.

    On a read, `topic`, `partition` and `offset` identify the record. On a write, only `topic` is set.
    """

    def __init__(
        self, message: str, *, hint: str = "", topic: str = "", partition: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, hint=hint)
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset


class UnreadableBatchError(FatalError):
    """A batch in the log can't be read: its checksum is right, so its producer wrote it like this.

    `topic`, `partition` and `offset` say where the batch begins. To continue after it, seek to `next_offset`, or pass
    `on_bad_record="skip"`. Brokers of ottla and of Apache Kafka reject such batches, but a log may have an older one.
    """

    def __init__(self, message: str, *, hint: str, topic: str, partition: int, offset: int, next_offset: int) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, hint=hint)
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset
        self.next_offset: Final = next_offset


class AuthenticationError(FatalError, ConnectionError):
    """The broker has rejected the client's login or certificate, or the client has rejected the broker's.

    The call is not tried again, because the same credentials would most likely be rejected again.
    """


class AuthorizationError(FatalError):
    """The principal is not allowed to perform the operation."""


class TimeoutError(RetriableError, builtins.TimeoutError):  # noqa: A001 - users write `except ottla.TimeoutError`
    """The call timed out. The request may still have been carried out, unless the message says otherwise."""


class BufferFullError(TimeoutError):
    """The producer's buffer stayed full for `max_block`: records are produced faster than brokers accept them."""


class ConnectError(RetriableError, ConnectionError):
    """No broker was reachable, or the connection broke during a call."""


class NotABrokerError(FatalError, ConnectionError):
    """The address is not a port that this client can use.

    It may be a gRPC or HTTP port, or a broker's port that expects TLS or a login which the client does not use.
    """


class UnknownTopicError(RetriableError):
    """The brokers that responded do not know the topic or partition."""


class TopicExistsError(FatalError):
    """The topic already exists; with `if_exists="ok"`, this is not an error."""


class RecordTooLargeError(FatalError):
    """One record, or one batch, is larger than the producer or the topic allows."""


class OffsetOutOfRangeError(FatalError):
    """The offset is not (or no longer) in the log, and `auto_offset_reset` does not allow a reset."""


class TruncationError(OffsetOutOfRangeError):
    """Records that a consumer has read are gone: the partition's new leader never had them (KIP-320).

    `offset` is the consumer's position; `divergent_offset` is the offset at which the new leader's log diverges from
    the records that the consumer has read, or None if unknown.
    """

    def __init__(self, message: str, *, offset: int, divergent_offset: int | None, hint: str = "") -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, message, hint=hint)
        self.offset: Final = offset
        self.divergent_offset: Final = divergent_offset


class CommitFailedError(FatalError):
    """Offsets were not committed, because the group has rebalanced without this consumer.

    Other members may now own its partitions and read again from the last committed offsets. If you keep reading,
    the consumer joins the group again.
    """


class RebalanceInProgressError(FatalError):
    """Offsets can't be committed until the group has rebalanced.

    Keep reading so that the rebalance can finish, then commit again.
    """


class FencedInstanceError(FatalError):
    """Another consumer has joined with the same `group_instance_id`. Only one consumer may use it at a time."""


class TransactionAborted(FatalError):  # noqa: N818 - Kafka's word, and what has happened
    """The transaction was not committed and never will be, so none of its records and offsets take effect.

    If `commit_transaction()` raises this error, call `abort_transaction()`; a `with` block has already aborted the
    transaction. Then repeat the work in another transaction.
    """


class FencedError(FatalError):
    """A newer producer with the same `transactional_id` has started, so this producer can no longer write.

    The open transaction of the fenced producer was aborted. Close that producer: only one producer may use a
    transactional id at a time.
    """


class RejectError(FatalError):
    """A handler of an App raises this error to send a record to the dead-letter topic without retries."""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message, hint=hint)


class HandlerError(FatalError):
    """An App has stopped, because a handler failed and the record could not be written to the dead-letter topic.

    `topic`, `partition` and `offset` identify the record; `attempts` is the number of attempts. `__cause__` is the last
    error of the handler, or the error of the write to the dead-letter topic.
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
    """Some records were not delivered, and you did not read their outcomes; `failed` is the number of these records.

    `flush()`, `close()` and leaving a `with` block raise this error. `__cause__` is the error of the first failed
    record.
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
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationError,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.TLS_HANDSHAKE_FAILED: AuthenticationError,
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

_MEANINGS: Final[dict[int, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed to handle the request",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is outside the log",
    ErrorCode.CORRUPT_MESSAGE: "the records were damaged on their way to the broker",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the broker knows no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker does not lead the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the broker did not finish the request in time",
    ErrorCode.MESSAGE_TOO_LARGE: "a batch of records is larger than the topic takes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "a batch of records is larger than a segment of the topic",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "there is no coordinator at the moment",
    ErrorCode.NOT_COORDINATOR: "the broker is not the coordinator any more",
    ErrorCode.NOT_ENOUGH_REPLICAS: "the partition has fewer in-sync replicas than min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records are on fewer in-sync replicas than min.insync.replicas",
    ErrorCode.INVALID_GROUP_ID: "the group id is not valid",
    ErrorCode.ILLEGAL_GENERATION: "the group has begun another generation without this member",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "this member and the others of its group have no assignor in common",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group does not know this member",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the broker does not allow this session timeout",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the user may not do this with the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the user may not use the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the user may not do this with the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use the transactional id",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the epoch of the producer is not the newest",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id does not belong to the transactional id any more",
    ErrorCode.INVALID_TXN_STATE: "the transaction is in a state that does not allow this",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the broker does not allow a transaction_timeout this long",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker can't use its disk",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as it may have",
    ErrorCode.FENCED_INSTANCE_ID: "another member of the group has this group_instance_id",
    ErrorCode.INVALID_RECORD: "the broker rejects a record",
    ErrorCode.PRODUCER_FENCED: "another producer has this transactional_id",
    ErrorCode.UNKNOWN_TOPIC_ID: "the broker knows no topic with this id",
}
"""What Kafka's brokers do not say: many of their responses have a code alone."""

_HINTS: Final[dict[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create it with Admin().topics.create(…) or check the name",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records or batches, or raise the topic's max.message.bytes",
    ErrorCode.NETWORK_EXCEPTION: "check that the broker is running and that its address is right",
    ErrorCode.REQUEST_TIMED_OUT: "the broker is overloaded or unreachable; it may have carried out the request",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader moved and the new one was not found in time",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader; check which brokers are down",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few in-sync replicas for acks=all; check which brokers are down",
    ErrorCode.NOT_CONTROLLER: "no controller responded in time; check that one is running",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer has used this producer's id; the next records get a new one",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "check that a group-coordinator is running",
    ErrorCode.REBALANCE_IN_PROGRESS: "keep reading so that the rebalance can finish, then commit again",
    ErrorCode.FENCED_INSTANCE_ID: "use a different group_instance_id for each consumer",
    ErrorCode.PRODUCER_FENCED: "close this producer; use a different transactional_id for each producer",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower transaction_timeout, or raise the txn-coordinator's "
    "transaction.max.timeout.ms",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "log in by a mechanism that the broker has enabled",
    ErrorCode.ILLEGAL_SASL_STATE: "leave login= out, or use the address of a listener that expects a login",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "check the credentials in login=",
    ErrorCode.TLS_HANDSHAKE_FAILED: "check the certificates in tls=, and the address of the broker",
    ErrorCode.OFFSET_OUT_OF_RANGE: "seek to an offset that exists, or set auto_offset_reset",
}


def error_from_code(
    code: int, message: str, *, of: object | None = None, hint: str = "", broker: str = ""
) -> OttlaError:
    """Return the subclass for Kafka's `code`, with a default hint if neither message nor caller has one.

    If the message is empty, the meaning of the code takes its place. `of` is what the error is about, such as a
    partition. It comes before the message, and is the error's `about`.
    """
    message = message or _MEANINGS.get(code) or _name(code)
    if of is not None:
        message = f"{of}: {message}"
    fallback = RetriableError if is_retriable(code) else FatalError
    if not hint and ";" not in message:  # a service's own hint comes within its message
        hint = _HINTS.get(code, "")
    return _CLASSES.get(code, fallback)(code, message, hint=hint, broker=broker, about=of)


def from_core(error: OttlaError, *, broker: str = "") -> OttlaError:
    """Return the SDK's subclass for an error of the core: one of the transport, or one in a response."""
    if isinstance(error, RetriableError | FatalError):
        return error.at(broker)
    return error_from_code(error.code, error.message, hint=error.hint, broker=broker or error.broker)


def config_error(message: str, *, hint: str = "") -> ConfigError:
    """Return a ConfigError with Kafka's INVALID_CONFIG."""
    return ConfigError(ErrorCode.INVALID_CONFIG, message, hint=hint)


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a hint with the names nearest to `name`, or `otherwise` if there are none.

    `name` itself is left out: it may have been created since.
    """
    from difflib import get_close_matches  # imported only after an error, since it is slow

    near = get_close_matches(name, [known for known in names if known != name], n=3)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
