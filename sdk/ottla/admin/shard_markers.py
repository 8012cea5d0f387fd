"""The exchange that writes an abort marker to a shard of groups, which only the owner of the shard may do."""

from __future__ import annotations

from ottla.admin.transaction_info import ActiveProducer
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call, raise_in_band
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import TxnMarker, TxnProducer
from ottla_proto.contracts import Group


def abort_marker(shard: int, producer: ActiveProducer, timeout_ms: int) -> Exchange[None]:
    """Return the exchange that writes the marker. A broker forwards it to the owner of the shard."""
    marker = TxnMarker(
        producer=TxnProducer(id=producer.producer_id, epoch=producer.producer_epoch),
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    request = pb.WriteShardMarkersRequest(
        markers=[pb.ShardsMarker(marker=marker, shards=[shard])], timeout_ms=timeout_ms
    )

    def read(response: pb.WriteShardMarkersResponse) -> None:
        raise_in_band(response.markers[0].shards[0])

    return private_call(Group.WRITE_TXN_MARKERS, request, read)
