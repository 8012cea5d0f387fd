"""The exchange that sends batches to the leader of their partitions, and what its response means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import PRODUCE
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.named_leaders import NamedLeader, endpoints_of, leader_of
from ottla.client.transaction_requests import suited
from ottla.machines.batches import BatchResponse
from ottla_core.kafka.messages import ProduceRequest, ProduceResponse
from ottla_core.model import PartitionId, TopicId

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""


class ProduceResult(NamedTuple):
    """What a response to Produce means: the outcome of each batch, and the leaders that it names."""

    responses: dict[PartitionId, BatchResponse]
    leaders: list[NamedLeader]


def exchange_of(
    batches: Sequence[tuple[PartitionId, bytes]],
    names: TopicNames,
    *,
    acks: int,
    transactional_id: str | None,
    transaction_version: int,
) -> Exchange[ProduceResult]:
    """Return the exchange that sends batches, at most one for each partition. It is sent at most once.

    The response is read by the names of its request. Another broker may make the client forget one meanwhile.
    """
    by_id = grouped(
        (at.topic_id, ProduceRequest.PartitionProduceData(index=at.partition, records=records))
        for at, records in batches
    )
    named: dict[bytes, str] = {}

    def build(terms: Terms) -> ProduceRequest:
        if terms.version < _IDS_FROM:
            # Only now: a topic that was recreated while the request waited must not get batches of the former one.
            named.update((topic_id, names.name_of(topic_id)) for topic_id in by_id)
            topics = [ProduceRequest.TopicProduceData(name=named[id_], partition_data=by_id[id_]) for id_ in by_id]
        else:
            topics = [ProduceRequest.TopicProduceData(topic_id=id_, partition_data=by_id[id_]) for id_ in by_id]
        by_id.clear()  # from now on the records are in the frame alone
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=terms.timeout_ms, topic_data=topics
        )

    def read(response: ProduceResponse) -> ProduceResult:
        endpoints = endpoints_of(response.node_endpoints)
        ids = {name: topic_id for topic_id, name in named.items()}
        result = ProduceResult({}, [])
        for topic in response.responses:
            topic_id = TopicId(ids.get(topic.name, b"") if topic.name else topic.topic_id)
            for each in topic.partition_responses:
                at = PartitionId(topic_id, each.index)
                result.responses[at] = BatchResponse(
                    each.base_offset, each.log_append_time_ms, each.error_code, each.error_message or ""
                )
                if each.error_code and (leader := leader_of(at, each.current_leader, endpoints)):
                    result.leaders.append(leader)
        return result

    size_bytes = sum(len(records or b"") for _, records in batches)
    return Exchange(suited(PRODUCE, transaction_version), build, read, size_bytes=size_bytes)
