"""Broker.Fetch is Kafka's Fetch, in a session of KIP-227.

Both sides remember what a client requests, and a request has only the changes. But Kafka's sessions and those of the
contract differ in what ends the request for a partition. For the client it ends once the partition got records, an
error or the name of another replica (`machines/fetch_sessions.py`). Kafka's broker goes on with it, at its old offset,
until the client tells it to forget the partition. So the next request has to name each partition that was answered, or
to forget it.

A session takes one request at a time, since each of them has the epoch that follows the last response.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import FETCH, AnyApi
from ottla.client.kafka.translations.fetched import Fetched, FetchedPartition
from ottla.client.kafka.translations.leaders import endpoints_of
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import FetchRequest, FetchResponse
from ottla_core.model import PartitionId, TopicId
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error

_IDS_FROM: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""
_NO_SESSION: Final = 0
_BEGINS: Final = 0
_STANDS_ALONE: Final = -1
_FINAL: Final = -1
"""With this epoch, a request ends the session that it names. Without a session, it stands alone."""
_MAX_EPOCH: Final = 2**31 - 1
_READ_COMMITTED: Final = 1
_NO_EPOCH: Final = -1
_SESSION_IS_OVER: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchSession:
    """The broker's session for one stream. It is called for each fetch, and returns the translation of that fetch."""

    def __init__(self) -> None:
        self.id = _NO_SESSION
        self.epoch = _BEGINS
        self.is_beginning = False
        """Whether a session may exist whose id has not come yet."""
        self.own_id = 0
        """The client's number of the session."""
        self.answered: Final[dict[PartitionId, None]] = {}
        """The partitions that the broker still counts as requested, but the client does not."""
        self.topic_ids: Final[dict[str, bytes]] = {}
        """The ids of the topics that were requested by name."""
        self.last: FetchTranslation | None = None
        """The last request. An earlier one, which nobody waits for any longer, changes nothing when it is answered."""

    def __call__(self) -> FetchTranslation:
        return FetchTranslation(self)

    @property
    def may_exist(self) -> bool:
        """Whether the broker may have a session."""
        return self.is_beginning or self.id != _NO_SESSION

    def goodbye(self, _version: int) -> FetchRequest:
        """Return the request that ends the session at the broker."""
        return FetchRequest(session_id=self.id, session_epoch=_FINAL)


class FetchTranslation:
    """One fetch of a session, or one that stands alone."""

    api: Final[AnyApi] = FETCH

    def __init__(self, session: FetchSession) -> None:
        self._session: Final = session
        self._stands_alone = True

    def request(self, request: pb.FetchRequest, terms: Terms) -> FetchRequest:
        session = self._session
        session.last = self
        named = {PartitionId(TopicId(part.topic_id), part.partition): part for part in request.partitions}
        forgotten: list[PartitionId] = []
        if request.session.begins:
            session.own_id, session.epoch, session.is_beginning = request.session.id, _BEGINS, True
            session.topic_ids.clear()
        # The session may have begun on another stream, which is being closed. Then the request has no session on the
        # wire, and after the response the client begins a new one.
        self._stands_alone = not request.session.id or request.session.id != session.own_id
        if not self._stands_alone and not request.session.begins:
            withdrawn = [PartitionId(TopicId(each.topic_id), each.partition) for each in request.forgotten]
            # A partition must not be in both lists: a broker would forget what it has just been told.
            forgotten = [each for each in dict.fromkeys([*session.answered, *withdrawn]) if each not in named]
        session.answered.clear()
        topics = [
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=part.partition,
                        current_leader_epoch=(
                            part.current_leader_epoch if part.HasField("current_leader_epoch") else _NO_EPOCH
                        ),
                        fetch_offset=part.fetch_offset,
                        partition_max_bytes=part.max_bytes,
                    )
                    for part in map(named.__getitem__, partitions)
                ],
            )
            for topic_id, name, partitions in self._by_topic(named, terms)
        ]
        return FetchRequest(
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation_level=_READ_COMMITTED if request.read_committed else 0,
            # With the first epoch, the id names the former session, which the broker then ends.
            session_id=_NO_SESSION if self._stands_alone else session.id,
            session_epoch=_STANDS_ALONE if self._stands_alone else session.epoch,
            rack_id=request.rack,
            topics=topics,
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=[p.partition for p in partitions])
                for topic_id, name, partitions in self._by_topic(forgotten, terms)
            ],
        )

    def response(self, response: FetchResponse, terms: Terms) -> Fetched:
        fetched = Fetched()
        endpoints = endpoints_of(response.node_endpoints)
        for topic in response.responses:
            topic_id = topic.topic_id if terms.version >= _IDS_FROM else self._session.topic_ids.get(topic.topic, b"")
            fetched.partitions.extend(FetchedPartition(topic_id, data, endpoints) for data in topic.partitions)
        session = self._session
        if not self._stands_alone and session.last is self:
            began, session.is_beginning = session.epoch == _BEGINS, False
            # An error names no session. The former one may still be there, and the next request ends it.
            if not response.error_code or response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                session.id = response.session_id
            if response.error_code in _SESSION_IS_OVER and not began:
                return fetched  # without a session, so that the client requests everything again in a new one
            if not response.error_code:
                session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
                if session.id != _NO_SESSION:
                    fetched.session = pb.FetchSession(id=session.own_id)
                    session.answered.update(
                        (PartitionId(TopicId(part.topic_id), part.partition), None)
                        for part in fetched.partitions
                        if part.ends_request
                    )
        if response.error_code:
            fetched.error = Error(code=response.error_code)
        return fetched

    def _by_topic(
        self, partitions: Iterable[PartitionId], terms: Terms
    ) -> Iterator[tuple[bytes, str, list[PartitionId]]]:
        """Yield each topic's id, its name if this version needs it, and its partitions in their order."""
        for topic_id, of_topic in grouped((partition.topic_id, partition) for partition in partitions).items():
            name = ""
            if terms.version < _IDS_FROM:
                name = terms.names.name_of(topic_id)
                self._session.topic_ids[name] = topic_id
            yield topic_id, name, of_topic
