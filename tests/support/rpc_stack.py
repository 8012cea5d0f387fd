"""The generic adapter with a scripted broker behind it, and a client of its fetch stream."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from waiting import LIMIT_S

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext, client_metadata
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc.status import CHANNEL_OPTIONS, TransportError, transport_error
from ottla_core.rpc.streams import EndStreamError
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


class ScriptedBroker:
    """A broker whose fetches are answered when they are told to: `gates` by max_wait_ms, order of arrival in `seen`.
    The `rack` of a fetch says how it fails, or that its response is large."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.cancelled: list[int] = []
        self.contexts: list[RequestContext] = []

    async def fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        number = request.max_wait_ms
        self.seen.append(number)
        self.contexts.append(context)
        match request.rack:
            case "refused":
                raise OttlaError(ErrorCode.INVALID_REQUEST, "no such rack", hint="use another one")
            case "bug":
                raise ValueError("a secret of the inside")
            case "end":
                raise EndStreamError("it has no other answer")
            case "large":
                return pb.FetchResponse(partitions=[pb.PartitionFetched(records=b"x" * request.max_bytes)])
        try:
            await self.gates.setdefault(number, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return pb.FetchResponse(partitions=[pb.PartitionFetched(high_watermark=number)])

    async def replica_fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        return pb.FetchResponse(partitions=[pb.PartitionFetched(records=b"x" * request.max_bytes)])

    async def list_offsets(self, request: pb.ListOffsetsRequest, context: RequestContext) -> pb.ListOffsetsResponse:
        self.contexts.append(context)
        script = request.partitions[0].topic_id if request.partitions else b""
        if script == b"bug":
            raise ValueError("a secret of the inside")
        if script == b"slow":
            await asyncio.sleep(60)
        return pb.ListOffsetsResponse(partitions=[pb.PartitionOffset(offset=7)])

    async def unscripted(self, request: Any, context: RequestContext) -> Any:
        raise OttlaError(ErrorCode.NOT_CONTROLLER, "not here", hint="ask there")

    shard_append = check_fence = log_ends = write_txn_markers = unscripted

    def open_gate(self, number: int) -> None:
        self.gates.setdefault(number, asyncio.Event()).set()


class Stack:
    def __init__(self, tls: InternalTls | None = None, *, port: int = 0) -> None:
        self.service = ScriptedBroker()
        self.metrics = Metrics()
        self.why_not: str | None = None
        self.on_drain: Callable[[], None] = lambda: None
        self.server = RpcServer(
            "127.0.0.1",
            port,
            self.metrics,
            ready=lambda: self.why_not,
            tls=tls,
            on_drain=lambda: self.on_drain(),
        )
        self.server.add(Broker, self.service)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def gauge(self, name: str, method: str = "") -> float:
        """Return a gauge of one method, or of the server."""
        read: Any = self.metrics.samples[name][(("method", method),) if method else ()]
        return float(read())


def listing(script: bytes = b"", *, padding: int = 0) -> pb.ListOffsetsRequest:
    """Return the request of a unary call. It is this many bytes longer."""
    parts = [pb.ListOffsetsPartition(topic_id=script), pb.ListOffsetsPartition(topic_id=bytes(padding))]
    return pb.ListOffsetsRequest(partitions=parts if padding else parts[:1])


class Client:
    """A framed stream of fetches, whose responses land in a queue."""

    def __init__(self, stack: Stack) -> None:
        self.responses: asyncio.Queue[tuple[int, pb.FetchResponse]] = asyncio.Queue()
        self.broken: asyncio.Queue[TransportError] = asyncio.Queue()
        self._address = stack.address
        self._numbers = itertools.count(1)
        self._channel = grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS)
        call: Any = self._channel.stream_stream(
            Broker.FETCH.path,
            request_serializer=pb.FetchFrame.SerializeToString,
            response_deserializer=pb.FetchResponseFrame.FromString,
        )
        self._call = call(metadata=client_metadata("tester"))
        self._reading = asyncio.create_task(self._read())

    async def send(self, number: int, *, timeout_ms: int = 60_000, rack: str = "") -> int:
        """Send a fetch with that max_wait_ms. Return its correlation id."""
        correlation_id = next(self._numbers)
        body = pb.FetchRequest(max_wait_ms=number, rack=rack)
        await self._call.write(pb.FetchFrame(correlation_id=correlation_id, timeout_ms=timeout_ms, body=body))
        return correlation_id

    async def response(self) -> tuple[int, pb.FetchResponse]:
        return await asyncio.wait_for(self.responses.get(), LIMIT_S)

    async def until_broken(self) -> TransportError:
        return await asyncio.wait_for(self.broken.get(), LIMIT_S)

    async def close(self) -> None:
        self._call.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._channel.close()

    async def _read(self) -> None:
        try:
            while (frame := await self._call.read()) is not grpc.aio.EOF:
                self.responses.put_nowait((frame.correlation_id, frame.body))
        except grpc.RpcError as error:
            self.broken.put_nowait(transport_error(error, self._address, Broker.FETCH.name))


def answer_of(response: pb.FetchResponse) -> int:
    """Return the number of the fetch that was answered."""
    return response.partitions[0].high_watermark
