"""A connection that was closed under a caller's feet is an error of the transport, not a surprise."""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode
from ottla_core.rpc.client import Peer
from ottla_core.rpc.status import TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


def test_a_call_on_a_closed_connection_is_told_in_words() -> None:
    peer = Peer("127.0.0.1:1")
    peer.close()
    with pytest.raises(TransportError) as raised:
        peer.call(Broker.LIST_OFFSETS, pb.ListOffsetsRequest(), timeout=1.0)
    assert raised.value.code == ErrorCode.NETWORK_EXCEPTION
    assert raised.value.message == "ListOffsets at 127.0.0.1:1: the connection was closed"
