"""The generic adapter with a scripted broker behind it, and a client of its produce stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import Queue
from typing import Any

from waiting import LIMIT_S

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.client import Peer
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc.status import TransportError
from ottla_core.rpc.streams import EndStreamError
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker, Operation


class ScriptedBroker:
    """A broker whose produce answers when it is told to: `gates` by acks, order of arrival in `seen`."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}
        self.cancelled: list[int] = []
        self.contexts: list[RequestContext] = []

    async def produce(self, request: pb.ProduceRequest, context: RequestContext) -> pb.ProduceResponse | None:
        number = request.acks
        self.seen.append(number)
        self.contexts.append(context)
        if number == 0:
            return await self._in_silence(request.partitions[0].records)
        if number < 0:
            raise OttlaError(ErrorCode.INVALID_REQUIRED_ACKS, "no such acks", hint="use 0, 1 or all")
        if number == 999:
            raise EndStreamError("it has no other answer")
        if number == 666:
            raise ValueError("a secret of the inside")
        if request.partitions and request.partitions[0].records.startswith(b"let go"):
            context.in_flight.let_go()
        try:
            await self.gates.setdefault(number, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return pb.ProduceResponse(partitions=[pb.PartitionAppended(base_offset=number)])

    async def _in_silence(self, fate: bytes) -> pb.ProduceResponse | None:
        """acks=0: the records say what happens to them."""
        match fate:
            case b"refused":
                raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is offline")
            case b"buggy":
                raise ValueError("a secret of the inside")
            case b"late":
                await asyncio.Event().wait()
            case b"answered":
                return pb.ProduceResponse()
        return None

    async def fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        return pb.FetchResponse(partitions=[pb.PartitionFetched(records=b"x" * request.max_bytes)])

    replica_fetch = fetch

    async def metadata(self, request: pb.MetadataRequest, context: RequestContext) -> pb.MetadataResponse:
        self.contexts.append(context)
        if request.topics == ["bug"]:
            raise ValueError("a secret of the inside")
        if request.topics[:1] == ["slow"]:
            await asyncio.sleep(60)
        return pb.MetadataResponse(cluster_id="c")

    async def unscripted(self, request: Any, context: RequestContext) -> Any:
        raise OttlaError(ErrorCode.NOT_CONTROLLER, "not here", hint="ask there")

    list_offsets = delete_records = describe_log_dirs = offsets_for_leader_epoch = init_producer_id = unscripted
    shard_append = check_fence = log_ends = import_records = write_txn_markers = unscripted
    describe_producers = unscripted

    def open_gate(self, number: int) -> None:
        self.gates.setdefault(number, asyncio.Event()).set()


class Stack:
    def __init__(self) -> None:
        self.service = ScriptedBroker()
        self.metrics = Metrics()
        self.denied: set[Operation] = set()
        self.why_not: str | None = None
        self.on_drain: Callable[[], None] = lambda: None
        self.server = RpcServer(
            "127.0.0.1",
            0,
            self.metrics,
            ready=lambda: self.why_not,
            authorize=self.authorize,
            on_drain=lambda: self.on_drain(),
        )
        self.server.add(Broker, self.service)

    def authorize(self, context: RequestContext, operation: Operation, resource: str) -> None:
        if operation in self.denied:
            raise OttlaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{context.principal} may not {operation.value}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def gauge(self, name: str, method: str = "") -> float:
        """Return a gauge of one method, or of the server."""
        read: Any = self.metrics.samples[name][(("method", method),) if method else ()]
        return float(read())


class Client:
    """A framed stream whose callbacks land in a queue."""

    def __init__(self, stack: Stack) -> None:
        self.peer = Peer(stack.address, client_id="tester")
        self.responses: Queue[tuple[int, pb.ProduceResponse]] = Queue()
        self.broken: Queue[tuple[TransportError, list[int]]] = Queue()
        self.stream = self.peer.open_stream(
            Broker.PRODUCE, lambda i, r: self.responses.put((i, r)), lambda e, left: self.broken.put((e, left))
        )

    def send(self, acks: int, *, timeout_ms: int = 60_000, records: bytes = b"") -> int:
        body = pb.ProduceRequest(acks=acks, partitions=[pb.PartitionRecords(records=records)])
        return self.stream.send(body, timeout_ms=timeout_ms, answered=acks != 0)

    async def response(self) -> tuple[int, pb.ProduceResponse]:
        return await asyncio.to_thread(self.responses.get, timeout=LIMIT_S)

    async def until_broken(self) -> tuple[TransportError, list[int]]:
        return await asyncio.to_thread(self.broken.get, timeout=LIMIT_S)
