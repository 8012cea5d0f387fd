"""The exchange that fetches records, and what its response means.

Records stay in the frame of their response, unless they are less than half of it. Then they are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.named_leaders import NamedLeader, endpoints_of, leader_of
from ottla.errors import OttlaError
from ottla.machines.broker_session import NO_SESSION, BrokerSession, SessionRequest
from ottla.machines.position import Fetch, FetchPart, PartitionData
from ottla_core.kafka.messages import FetchRequest, FetchResponse
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import Buffer

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""
_READ_COMMITTED: Final = 1
_NOBODY: Final = -1
_MOST_WASTE: Final = 2
"""A view keeps its whole frame in memory, which may have this many times the bytes of the view."""


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The settings of each fetch; `max_wait_s` is how long a broker may wait for `min_bytes`."""

    min_bytes: int
    max_bytes: int
    max_wait_s: float
    rack: str
    read_committed: bool = True


class Fetched(NamedTuple):
    """What a response to a fetch means. `in_session` says whether the broker keeps the fetch's session."""

    partitions: dict[PartitionId, PartitionData]
    leaders: list[NamedLeader]
    in_session: bool


def exchange_of(fetch: Fetch, session: BrokerSession, options: FetchOptions, names: TopicNames) -> Exchange[Fetched]:
    """Return the exchange for a fetch. Building its request changes the session, so it is sent at most once."""
    sent = SessionRequest()

    def build(terms: Terms) -> FetchRequest:
        nonlocal sent
        named = {part.route.partition_id: part for part in fetch.parts}
        begins = fetch.session.id != NO_SESSION and fetch.number == 1
        sent = session.request(fetch.session.id, begins=begins, named=named.keys(), withdrawn=fetch.forgotten)
        needs_names = terms.version < _IDS_FROM
        return FetchRequest(
            max_wait_ms=round(min(options.max_wait_s, fetch.max_wait_s) * 1000),
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            isolation_level=_READ_COMMITTED if options.read_committed else 0,
            session_id=sent.id,
            session_epoch=sent.epoch,
            # The rack lets the leader refer this consumer to a closer replica (KIP-392). It is left out for a while
            # after such a replica was lost.
            rack_id=options.rack if fetch.target.from_follower or fetch.target.may_name else "",
            topics=[
                FetchRequest.FetchTopic(
                    topic=name, topic_id=topic_id, partitions=[_partition(named[at], fetch) for at in partitions]
                )
                for topic_id, name, partitions in _by_topic(named, session, names if needs_names else None)
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic=name, topic_id=topic_id, partitions=[at.partition for at in partitions]
                )
                for topic_id, name, partitions in _by_topic(sent.forgotten, session, names if needs_names else None)
            ],
        )

    def read(response: FetchResponse) -> Fetched:
        endpoints = endpoints_of(response.node_endpoints)
        partitions: dict[PartitionId, PartitionData] = {}
        leaders: list[NamedLeader] = []
        for topic in response.responses:
            if topic.topic and topic.topic not in session.topic_ids:
                continue  # it was not requested
            topic_id = TopicId(session.topic_ids[topic.topic] if topic.topic else topic.topic_id)
            for each in topic.partitions:
                at = PartitionId(topic_id, each.partition_index)
                partitions[at] = _data(each, read_committed=options.read_committed)
                if each.error_code and (leader := leader_of(at, each.current_leader, endpoints)):
                    leaders.append(leader)
        ended = [at for at, data in partitions.items() if data.ends_request]
        result = session.on_response(sent, response.error_code, response.session_id, ended)
        if not result.is_good:
            raise OttlaError(response.error_code, "")
        return Fetched(partitions, leaders, result.in_session)

    return Exchange(FETCH, build, read, takes_errors=True)


def _partition(part: FetchPart, fetch: Fetch) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=part.route.partition_id.partition,
        current_leader_epoch=part.route.leader_epoch,
        fetch_offset=part.offset,
        partition_max_bytes=fetch.partition_bytes,
    )


def _by_topic(
    partitions: Iterable[PartitionId], session: BrokerSession, names: TopicNames | None
) -> Iterator[tuple[bytes, str, list[PartitionId]]]:
    """Yield each topic's id, its name if there are `names`, and its partitions in their order."""
    for topic_id, of_topic in grouped((partition.topic_id, partition) for partition in partitions).items():
        name = ""
        if names is not None:
            name = names.name_of(topic_id)
            session.topic_ids[name] = topic_id
        yield topic_id, name, of_topic


def _data(data: FetchResponse.PartitionData, *, read_committed: bool) -> PartitionData:
    return PartitionData(
        _kept(data.records),
        data.last_stable_offset if read_committed else data.high_watermark,
        max(0, data.log_start_offset),
        data.error_code,
        "",
        None if data.preferred_read_replica == _NOBODY else data.preferred_read_replica,
        tuple((aborted.producer_id, aborted.first_offset) for aborted in data.aborted_transactions or ()),
    )


def _kept(records: Buffer | None) -> Buffer:
    """Return the records as they are if they take enough of their frame, and otherwise a copy of them.

    A consumer keeps records until they are read, and counts their own bytes alone.
    """
    if not records:
        return b""
    if isinstance(records, memoryview) and len(records) * _MOST_WASTE < len(memoryview(records.obj)):
        return bytes(records)
    return records
