"""A connection that was closed under a caller's feet is an error of the transport, not a surprise; nor is a callback
that raises, which is logged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from waiting import LIMIT_S

from ottla_core.errors import ErrorCode
from ottla_core.rpc.client import FrameStream, Peer
from ottla_core.rpc.status import TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


def test_a_call_on_a_closed_connection_is_told_in_words() -> None:
    peer = Peer("127.0.0.1:1")
    peer.close()
    with pytest.raises(TransportError) as raised:
        peer.call(Broker.METADATA, pb.MetadataRequest(), timeout=1.0)
    assert raised.value.code == ErrorCode.NETWORK_EXCEPTION
    assert raised.value.message == "Metadata at 127.0.0.1:1: the connection was closed"


class OneFrame:
    """A channel, and the only call on it: one frame comes, then nothing more."""

    def stream_stream(self, path: str, **_: Any) -> Callable[..., OneFrame]:
        return lambda requests, metadata: self

    def __iter__(self) -> Iterator[pb.ProduceResponseFrame]:
        yield pb.ProduceResponseFrame(correlation_id=1)

    def cancel(self) -> None:
        """There is nothing to end."""


@pytest.mark.story("callback-that-raises-is-not-logged")
@pytest.mark.parametrize("failure", [MemoryError("no more"), SystemExit("enough")])
def test_a_callback_that_raises_is_logged_and_breaks_the_stream(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    broken: Queue[TransportError] = Queue()

    def fail(correlation_id: int, response: pb.ProduceResponse) -> None:
        raise failure

    FrameStream(OneFrame(), "b0:1", Broker.PRODUCE, (), fail, lambda error, left: broken.put(error))
    error = broken.get(timeout=LIMIT_S)
    assert (error.code, repr(failure) in error.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, True)
    (record,) = [record for record in caplog.records if record.name == "ottla_core.rpc.client"]
    assert record.exc_info is not None
    assert record.exc_info[1] is failure
