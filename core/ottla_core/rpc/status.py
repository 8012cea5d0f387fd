"""Translates between gRPC's status and Kafka's codes, and has the channel options on which both ends agree.

gRPC's status speaks of transport and contract only. To a client each becomes an OttlaError, and `indefinite` says
whether the call may have been carried out all the same.
"""

from __future__ import annotations

import logging
from typing import Final

import grpc
import grpc.aio

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.rpc.calls import MAX_CALLS
from ottla_core.rpc.handshake_failures import failure_of
from ottla_proto.common_pb2 import Error

_log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""The largest request. It bounds the memory of a server; the largest ones carry batches of a shard."""

MAX_RESPONSE_BYTES: Final = MAX_BATCH_BYTES + MAX_MESSAGE_BYTES
"""The largest response. A fetch is answered with one batch of any size that a log may hold, or with several smaller
ones; the rest is room for the fields of each partition."""

_KEEP_ALIVE_MS: Final = 10_000

_CONNECT_LIMIT_MS: Final = 2_000
"""How long the other side may take to accept a connection and send its first frame.

gRPC takes this limit from an option whose name speaks of a backoff. At 50 ms, which that name suggests, a server on a
busy machine seemed to be silent."""

SHARED_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_LIMIT_MS),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),  # retries follow Kafka's rules, not gRPC's
    ("grpc.enable_http_proxy", 0),
)
"""All channels of a process to one address that have these options are one connection, which lasts as long as one of
them."""

CHANNEL_OPTIONS: Final = (*SHARED_CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
"""With these options, two channels to one address are two connections."""

_MAX_STREAMS_OF_A_CONNECTION: Final = 10_000
"""The most calls and streams of a connection. Further ones wait at the client. A broker forwards its Kafka clients'
waiting calls over one connection."""

HANDSHAKE_LIMIT_MS: Final = 10_000
"""How long a client may take from connecting to its first frame. gRPC's own limit is two minutes."""

MAX_CONNECTIONS: Final = 2_000
"""The most connections of a server, which are as many as hundreds of services need. Further ones are closed at once.

gRPC has no limit for handshakes alone, and without one strangers could take all memory and file descriptors."""

SERVER_OPTIONS: Final = (
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_LIMIT_MS),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.max_concurrent_streams", _MAX_STREAMS_OF_A_CONNECTION),
    ("grpc.server.max_pending_requests", MAX_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_CALLS),
    ("grpc.server_max_unrequested_time_in_server", 24 * 3600),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_RESPONSE_BYTES),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEP_ALIVE_MS // 2),
    ("grpc.so_reuseport", 0),  # two servers on one port is a mistake, not load balancing
)
"""A call is pending until the event loop takes it. gRPC's own limits are 1,000 and 3,000 pending calls: beyond the
first it cancels calls at random, and beyond the second all further ones, without a reason. A broker that passes on the
requests of a large group's members exceeds both. So the limits are those of `Calls`, which rejects further calls with a
reason. gRPC also cancels each call that has been pending for 30 seconds, as when the process was stopped or the machine
was overloaded. A call has a deadline of its own, so the server's limit is a day.
"""

_CODES: Final = {
    grpc.StatusCode.UNAVAILABLE: ErrorCode.NETWORK_EXCEPTION,
    grpc.StatusCode.CANCELLED: ErrorCode.NETWORK_EXCEPTION,
    grpc.StatusCode.ABORTED: ErrorCode.NETWORK_EXCEPTION,
    grpc.StatusCode.UNKNOWN: ErrorCode.NETWORK_EXCEPTION,  # the connection was reset: no server of ottla answers so
    grpc.StatusCode.DEADLINE_EXCEEDED: ErrorCode.REQUEST_TIMED_OUT,
    grpc.StatusCode.INVALID_ARGUMENT: ErrorCode.INVALID_REQUEST,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ErrorCode.NETWORK_EXCEPTION,  # the other side can't take it now
    grpc.StatusCode.UNIMPLEMENTED: ErrorCode.UNSUPPORTED_VERSION,
    grpc.StatusCode.PERMISSION_DENIED: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    grpc.StatusCode.UNAUTHENTICATED: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
_TOO_LARGE: Final = "message larger than max"  # gRPC's words with RESOURCE_EXHAUSTED, on either side
_WRITE_FAILED: Final = "Internal error from Core"  # gRPC's words with INTERNAL, if a write meets the end of its stream


class TransportError(OttlaError):
    """The call did not come back. `indefinite` says whether it may have been carried out all the same."""

    def __init__(self, code: int, message: str, *, hint: str = "", indefinite: bool = True) -> None:
        super().__init__(code, message, hint=hint)
        self.indefinite: Final = indefinite


def transport_error(error: Exception, address: str, action: str) -> TransportError:
    """Return the error that a client gets for a grpc.RpcError."""
    status, details = grpc.StatusCode.UNKNOWN, str(error)
    if isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        status, details = error.code(), error.details() or error.code().name
    code = _CODES.get(status, ErrorCode.UNKNOWN_SERVER_ERROR)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in details:
        code = ErrorCode.MESSAGE_TOO_LARGE
    if status is grpc.StatusCode.INTERNAL and details == _WRITE_FAILED:
        code = ErrorCode.NETWORK_EXCEPTION
    if (failure := failure_of(details)) is not None:
        return TransportError(code, f"{action} at {address}: {failure.reason}", hint=failure.hint)
    return TransportError(code, f"{action} at {address}: {details}")


def error_message(error: OttlaError) -> Error:
    """Return the error as it travels in band, with message and hint in one sentence."""
    return Error(code=error.code, message=f"{error.message}; {error.hint}" if error.hint else error.message)


def raise_error(error: Error) -> None:
    """Raise the error that a response carries in band, if there is one."""
    if error.code:
        raise OttlaError(error.code, error.message)


def log_bug(method: str, request_id: str, error: BaseException) -> str:
    """Log a bug with its traceback. Return the words that a client may see of it."""
    _log.error("%s failed for request %s", method, request_id, exc_info=error)
    return f"internal error, in the log as request {request_id}"
