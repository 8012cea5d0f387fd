"""A connection that was closed under a caller's feet is an error of the transport, not a surprise."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from ottla_core.errors import ErrorCode
from ottla_core.rpc.client import Peer
from ottla_core.rpc.status import TransportError, transport_error
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


def test_a_call_on_a_closed_connection_is_told_in_words() -> None:
    peer = Peer("127.0.0.1:1")
    peer.close()
    with pytest.raises(TransportError) as raised:
        peer.call(Broker.LIST_OFFSETS, pb.ListOffsetsRequest(), timeout=1.0)
    assert raised.value.code == ErrorCode.NETWORK_EXCEPTION
    assert raised.value.message == "ListOffsets at 127.0.0.1:1: the connection was closed"


@pytest.mark.parametrize(
    ("details", "code"),
    [("Internal error from Core", ErrorCode.NETWORK_EXCEPTION), ("internal error", ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_write_that_meets_the_end_of_its_stream_is_no_error_of_the_server(details: str, code: ErrorCode) -> None:
    nothing = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, details=details)
    assert transport_error(error, "broker:1", "Fetch").code == code
