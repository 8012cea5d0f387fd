"""A broker that only answers: the yardstick of the produce and fetch figures.

The same adapter, frames and event loop as the real one, but nothing is checked, kept or read: what a client reaches
here is what gRPC and the client themselves allow.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any, Final

import uvloop

from ottla_core.process.allocator import keep_freed_memory
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker

TOPIC_ID: Final = b"answering-broker"


class AnsweringBroker:
    def __init__(self, partitions: int, response: bytes) -> None:
        self._partitions = partitions
        self._response = response
        self._next = [0] * partitions
        self.address = ""

    async def produce(self, request: pb.ProduceRequest, context: RequestContext) -> pb.ProduceResponse:
        response = pb.ProduceResponse()
        for part in request.partitions:
            response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, base_offset=0, log_append_time_ms=-1
            )
        return response

    async def fetch(self, request: pb.FetchRequest, context: RequestContext) -> pb.FetchResponse:
        response = pb.FetchResponse()
        for part in request.partitions:
            response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, high_watermark=1 << 60, records=self._response
            )
        return response

    replica_fetch = fetch

    async def metadata(self, request: pb.MetadataRequest, context: RequestContext) -> pb.MetadataResponse:
        response = pb.MetadataResponse(cluster_id="answering", revision=1)
        response.brokers.add(id=0, address=self.address, epoch=1)
        for name in request.topics:
            topic = response.topics.add(name=name, topic_id=TOPIC_ID)
            for n in range(self._partitions):
                topic.partitions.add(partition=n, leader=0, replicas=[0], isr=[0])
        return response

    async def list_offsets(self, request: pb.ListOffsetsRequest, context: RequestContext) -> pb.ListOffsetsResponse:
        response = pb.ListOffsetsResponse()
        for part in request.partitions:
            offset = 0 if part.timestamp_ms == -2 else 1 << 60
            response.partitions.add(topic_id=part.topic_id, partition=part.partition, offset=offset, timestamp_ms=-1)
        return response

    async def delete_records(self, request: Any, context: RequestContext) -> pb.DeleteRecordsResponse:
        return pb.DeleteRecordsResponse()

    async def describe_log_dirs(self, request: Any, context: RequestContext) -> pb.DescribeLogDirsResponse:
        return pb.DescribeLogDirsResponse()

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, context: RequestContext
    ) -> pb.OffsetsForLeaderEpochResponse:
        response = pb.OffsetsForLeaderEpochResponse()
        for part in request.partitions:
            end = pb.EpochEnd(leader_epoch=part.leader_epoch, end_offset=1 << 60)
            response.partitions.add(topic_id=part.topic_id, partition=part.partition, end=end)
        return response

    async def init_producer_id(
        self, request: pb.InitProducerIdRequest, context: RequestContext
    ) -> pb.InitProducerIdResponse:
        return pb.InitProducerIdResponse(producer_id=1, producer_epoch=0)

    async def shard_append(self, request: Any, context: RequestContext) -> pb.ShardAppendResponse:
        return pb.ShardAppendResponse()

    async def check_fence(self, request: Any, context: RequestContext) -> pb.CheckFenceResponse:
        return pb.CheckFenceResponse()

    async def log_ends(self, request: Any, context: RequestContext) -> pb.LogEndsResponse:
        return pb.LogEndsResponse()

    async def write_txn_markers(self, request: Any, context: RequestContext) -> pb.WriteTxnMarkersResponse:
        return pb.WriteTxnMarkersResponse()

    async def describe_producers(self, request: Any, context: RequestContext) -> pb.DescribeProducersResponse:
        return pb.DescribeProducersResponse()

    async def import_records(self, request: Any, context: RequestContext) -> pb.ImportRecordsResponse:
        return pb.ImportRecordsResponse()


async def serve(port: int, partitions: int, response_bytes: int) -> None:
    service = AnsweringBroker(partitions, bytes(response_bytes))
    server = RpcServer("127.0.0.1", port, Metrics())
    server.add(Broker, service)
    await server.start()
    service.address = f"127.0.0.1:{server.port}"
    print(service.address, flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await server.stop(grace_s=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--response-bytes", type=int, default=1 << 20)
    given = parser.parse_args()
    keep_freed_memory()  # as every service does
    uvloop.run(serve(given.port, given.partitions, given.response_bytes))
