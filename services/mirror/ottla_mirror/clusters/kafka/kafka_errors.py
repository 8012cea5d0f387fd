"""librdkafka's errors as ottla's. Brokers' codes are Kafka's, and its own are below zero."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

import ottla
from ottla.errors import error_from_code
from ottla_core.errors import ErrorCode, OttlaError

_AWAY: Final = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._SSL,
    KafkaError._AUTHENTICATION,
)
_LATE: Final = (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE)


def as_ottla(error: KafkaError) -> OttlaError:
    """Return ottla's error, which the caller raises."""
    code, text = error.code(), error.str()
    if code in _AWAY:
        return ottla.ConnectError(ErrorCode.NETWORK_EXCEPTION, text)
    if code in _LATE:
        return ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, text)
    return error_from_code(max(code, ErrorCode.UNKNOWN_SERVER_ERROR), text)


@contextmanager
def kafka_errors(but: int | None = None) -> Iterator[None]:
    """Raise OttlaError for librdkafka's errors in the block, except for the code `but`, which just ends the block."""
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() != but:
            raise as_ottla(error.args[0]) from error
