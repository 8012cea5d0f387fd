"""Fetch over the bare contract, 1 MB responses, three frames in flight: MB/s, without an SDK to slow it down.

Against the real broker it reads a topic that `loadtest.rows.produce` has filled, from its start again and again.
"""

from __future__ import annotations

import argparse
import json
import time
from queue import Queue

from ottla_core.records.batch import MAGIC, read_header, whole_batches
from ottla_core.rpc.client import Peer
from ottla_core.rpc.status import TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker

RESPONSE_BYTES = 1 << 20
IN_FLIGHT = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--megabytes", type=int, default=1_000)
    given = parser.parse_args()
    peer = Peer(given.bootstrap.split(",")[0])
    described = peer.call(Broker.METADATA, pb.MetadataRequest(topics=[given.topic]), timeout=10).topics[0]
    responses: Queue[pb.FetchResponse] = Queue()

    def on_broken(error: TransportError, left: list[int]) -> None:
        responses.put(pb.FetchResponse(error={"code": error.code, "message": error.message}))

    stream = peer.open_stream(Broker.FETCH, lambda _, response: responses.put(response), on_broken)
    offsets = [0] * len(described.partitions)

    def ask(partition: int) -> None:
        wanted = pb.FetchPartition(
            topic_id=described.topic_id, partition=partition, fetch_offset=offsets[partition], max_bytes=RESPONSE_BYTES
        )
        stream.send(
            pb.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=RESPONSE_BYTES, partitions=[wanted]),
            timeout_ms=10_000,
        )

    for partition in range(min(IN_FLIGHT, len(offsets))):
        ask(partition)
    received, began, cpu = 0, time.monotonic(), time.process_time()
    while received < given.megabytes * 1_000_000:
        part = responses.get(timeout=30).partitions[0]
        if part.error.code:
            raise SystemExit(f"fetch failed: {part.error.message}")
        received += len(part.records)
        offsets[part.partition] = next_offset(part.records, part.high_watermark)
        ask(part.partition)
    seconds = time.monotonic() - began
    stream.close()
    peer.close()
    print(json.dumps({"mb_s": round(received / 1e6 / seconds), "client_cpu_s": round(time.process_time() - cpu, 2)}))


def next_offset(records: bytes, high_watermark: int) -> int:
    """After the last batch; at the end of the partition, its start again. A yardstick's records hold no batch."""

    if read_header(records).magic != MAGIC:
        return 0
    _, following = whole_batches(memoryview(records), 1 << 62)
    return 0 if following >= high_watermark else following


if __name__ == "__main__":
    main()
