"""The clients' error messages. Each names the record or partition, the cause and what to do."""

from __future__ import annotations

from ottla.errors import (
    BufferFullError,
    CommitFailedError,
    ConfigError,
    DeliveryError,
    ErrorCode,
    FatalError,
    OttlaError,
    SerializationError,
    TruncationError,
    error_from_code,
)
from ottla.machines.batches import BatchResponse, ProducerBatch
from ottla_core.model import TopicPartition
from ottla_core.plural import counted


def not_serialized(error: Exception, topic: str, key: object) -> SerializationError:
    """Return the error for a serializer that raised, or returned something other than bytes."""
    record = f"a record to {topic}" if key is None else f"the record to {topic} with the key {key!r:.60}"
    if isinstance(error, SerializationError):
        return SerializationError(f"{record} was not sent: {error.message}", hint=error.hint, topic=topic)
    message = f"{record} was not sent: its serializer raised {type(error).__name__}: {error}"
    return SerializationError(message, hint="see the original exception", topic=topic)


def no_timestamp(timestamp: object) -> ConfigError:
    """Return the error for a timestamp that is not in milliseconds."""
    return ConfigError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp={timestamp!r} is not a timestamp",
        hint="pass milliseconds since 1970, such as int(moment.timestamp() * 1000)",
    )


def no_position(partition: TopicPartition) -> OttlaError:
    """Return the error of a consumer without a group that has no start offset for a partition and may not choose
    one."""
    return error_from_code(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{partition} has no start position: start= does not set one, and auto_offset_reset is 'none'",
        hint="seek, pass start=, or set auto_offset_reset='earliest' or 'latest'",
    )


def no_batch(partition: TopicPartition, offset: int) -> OttlaError:
    """Return the error for a fetch whose response has records, but no whole batch with the requested offset."""
    return error_from_code(
        ErrorCode.CORRUPT_MESSAGE,
        f"the fetch at offset {offset} returned no complete batch with that offset",
        of=partition,
        hint=f"check the broker's log; to skip the batch, seek to an offset after {offset}",
    )


def old_format(partition: TopicPartition, offset: int) -> OttlaError:
    """Return the error for records in a format that this client does not read."""
    return error_from_code(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        f"the records from offset {offset} on are in a format older than Kafka 0.11, which this client does not read",
        of=partition,
        hint="copy the topic with an older Kafka client, or seek to an offset after the old records",
    )


def buffer_full(buffer_bytes: int, waited_s: float) -> BufferFullError:
    """Return the error for a buffer that had no space for a record during `max_block`."""
    return BufferFullError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"the buffer of {buffer_bytes} bytes stayed full for max_block={waited_s:g} s; the record was not sent",
        hint="send more slowly, raise buffer_memory, or check why the brokers can't keep up",
    )


def line_full(line_bytes: int) -> BufferFullError:
    """Return the error for a full buffer and a full queue, if `send` must not block a coroutine."""
    return BufferFullError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"the buffer is full, and {line_bytes} bytes of records are waiting for space in it; the record was not sent",
        hint="await earlier sends before you send more, raise buffer_memory, or check why the brokers can't keep up",
    )


def not_flushed(batches: int) -> OttlaError:
    """Return the error for a flush that has timed out."""
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{batches} {'batch has' if batches == 1 else 'batches have'} no outcome yet",
        hint="the producer retries until delivery_timeout; wait longer, or check why the brokers don't respond",
    )


def callbacks_late(timeout_s: float) -> OttlaError:
    """Return the error if all batches are settled, but callbacks of the user still run."""
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"all records have an outcome, but some delivery callbacks did not return within {timeout_s:g} s",
        hint="wait longer, or keep callbacks short",
    )


def topic_recreated(topic: str, reset: str) -> OttlaError:
    """Return the error for a topic that was recreated since it was read."""
    then = "" if reset == "none" else f"; reading continues from the {reset} record, as auto_offset_reset says"
    return error_from_code(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"the topic {topic!r} was deleted and recreated: offsets of the old topic are invalid in the new one{then}",
        hint="seek to where reading should continue, or set auto_offset_reset='earliest' or 'latest'",
    )


def stop_gone(topic: str, *, recreated: bool) -> OttlaError:
    """Return the error for a topic that was deleted, so that a read will never reach its stop."""
    return error_from_code(
        ErrorCode.UNKNOWN_TOPIC_ID if recreated else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"the topic {topic!r} was deleted{' and recreated' * recreated} before the consumer reached its stop position: "
        "the remaining records are gone",
        hint="read the existing records with another consumer, or seek and pass another stop=",
    )


def sender_failed(bug: BaseException) -> FatalError:
    """Return the error for a sending thread that failed because of a bug, and sends nothing any more."""
    return _by_a_bug(
        "the producer's sender failed, so the producer sends no more records",
        bug,
        "close the producer and create a new one",
    )


def consumer_failed(bug: BaseException) -> FatalError:
    """Return the error for a consumer's thread that failed because of a bug; fetches restart from the positions."""
    return _by_a_bug(
        "one of the consumer's threads failed",
        bug,
        "keep reading to fetch the records again, or close the consumer",
    )


def _by_a_bug(what: str, bug: BaseException, hint: str) -> FatalError:
    error = FatalError(
        ErrorCode.UNKNOWN_SERVER_ERROR,
        f"{what}: {bug!r}",
        hint=f"{hint}; please report this bug, with the exception above",
    )
    error.__cause__ = bug
    return error


def not_delivered(failed: int, first: OttlaError) -> DeliveryError:
    """Return the error for failed records whose outcomes were not awaited. Raise it from `first`."""
    message = f"{failed} records were not delivered; the first: {first.message}"
    if failed == 1:
        message = f"1 record was not delivered: {first.message}"
    return DeliveryError(first.code, message, failed=failed, hint=first.hint)


def record_too_large(size_bytes: int, request_bytes: int) -> OttlaError:
    """Return the error for a record that does not fit into a request."""
    return error_from_code(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record of about {size_bytes} bytes is larger than max_request_size={request_bytes}",
        hint="send it in pieces, or raise max_request_size and the topic's max.message.bytes",
    )


def broker_error(batch: ProducerBatch, response: BatchResponse) -> OttlaError:
    """Return the error of a batch's response."""
    return error_from_code(response.code, response.message, of=batch.partition)


def perhaps_written(batch: ProducerBatch) -> OttlaError:
    """Return the error for a part of a batch that was too large when it was sent again."""
    were = "record may or may not have been" if batch.count == 1 else "records may or may not have been"
    return error_from_code(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{batch.partition}: {batch.count} {were} written: the first attempt has no known outcome, and at a later one "
        "the broker rejected the batch as too large",
        hint="lower batch_size, or raise the topic's max.message.bytes",
    )


def other_topic(batch: ProducerBatch) -> OttlaError:
    """Return the error for a batch whose topic was recreated under its name."""
    return error_from_code(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"{batch.partition} was deleted and recreated: the batch was meant for the old topic",
        hint="compare the new topic with the records sent to the old one, and send the missing records again",
    )


def too_late(batch: ProducerBatch, timeout_s: float, no_producer_id: OttlaError | None) -> OttlaError:
    """Return the error for a batch that timed out; if it never left because it had no producer id, `no_producer_id`
    says why."""
    tries = (
        f"after {counted(batch.attempts or 1, 'attempt')}; the last one failed with: {batch.error}"
        if batch.error
        else "and never sent"
    )
    if no_producer_id is not None and not batch.attempts:
        tries += f": no broker returned a producer id ({no_producer_id.message})"
    return error_from_code(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{counted(batch.count, 'record')} for {batch.partition} "
        f"{'was' if batch.count == 1 else 'were'} not acknowledged within delivery_timeout={timeout_s:g} s, {tries}",
        hint="check that the partition has a leader; a failed attempt may have written its records",
    )


def left_behind(address: str, overdue_s: float) -> str:
    """Return the warning that the producer stops waiting for a broker that may hang."""
    return f"{address} has not responded for {overdue_s:g} s, and another leader is known"


def forgotten(partition: TopicPartition, response: BatchResponse) -> str:
    """Return the warning that a broker does not know batches that it acknowledged; one warning for all in flight."""
    return (
        f"{partition}: the broker's state for this producer does not match the batches that it acknowledged "
        f"({response.message}); "
        "continuing in a new epoch: records in flight may be written twice or out of order"
    )


def position_reset(partition: TopicPartition, offset: int, message: str, reset: str) -> str:
    """Return the warning that a position is not, or no longer, in the log."""
    return (
        f"{partition}: offset {offset} is not in the log ({message}); continuing at the {reset} offset, as "
        "auto_offset_reset says"
    )


def log_truncated(partition: TopicPartition, offset: int, epoch: int, end: int | None) -> TruncationError:
    """Return the error for records that were read, but that the new leader's log lacks from `end` on (None:
    unknown)."""
    where = (
        "the new leader's log does not contain that epoch"
        if end is None
        else f"the new leader's log lacks the records from {end} on"
    )
    hint = "seek to an offset that exists" if end is None else f"seek to {end} to continue there"
    message = (
        f"{partition}: the log was truncated: this consumer read up to offset {offset} in leader epoch {epoch}, "
        f"and {where}"
    )
    return TruncationError(message, hint=hint, offset=offset, divergent_offset=end)


def stop_truncated(partition: TopicPartition, stop: int, end: int) -> str:
    """Return the warning that the new leader's log lacks the records from `end` to the stop position."""
    return (
        f"{partition}: the log was truncated before the consumer reached its stop position {stop}: "
        f"the new leader's log lacks the records from {end} on, so reading stops there"
    )


def not_committed(group: str, error: OttlaError, left_behind: str) -> CommitFailedError:
    """Return the error for a commit of a member without which the group has rebalanced."""
    reason = left_behind if left_behind and left_behind != error.message else "other members may own its partitions now"
    return CommitFailedError(
        error.code,
        f"the offsets were not committed: the group {group!r} has rebalanced without this consumer "
        f"({error.message or error.name}); {reason}",
        hint="keep reading, and the consumer rejoins the group; the partitions' new owners start at the last committed "
        "offsets. If processing took too long, lower max_poll_records or raise max_poll_interval",
        broker=error.broker,
    )
