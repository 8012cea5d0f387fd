"""The honest part of the server: a cluster of one broker, with one topic of one partition."""

from __future__ import annotations

import random
import struct
from typing import Any, Final, NamedTuple

from tests.fuzz import batches
from tests.fuzz.messages import class_of, requests
from tests.fuzz_client.logins import MECHANISMS, HonestLogin
from tests.fuzz_client.vocabulary import HOST, NODE, RECORDS, TOPIC, TOPIC_ID, HonestComposer

from ottla.client.kafka import apis
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    ApiVersionsResponse,
    FetchResponse,
    InitProducerIdResponse,
    ListOffsetsResponse,
    MetadataResponse,
    ProduceResponse,
    RequestHeader,
    ResponseHeader,
    SaslHandshakeResponse,
)

APIS: Final = {api.key: api for api in vars(apis).values() if isinstance(api, apis.Api) and api.key in requests()}
HANDSHAKE: Final = frozenset({apis.API_VERSIONS.key, apis.SASL_HANDSHAKE.key, apis.SASL_AUTHENTICATE.key})
"""The APIs that a client uses before its first call."""
_UNSUPPORTED_VERSION: Final = 35
_UNKNOWN_TOPIC: Final = 3
_EPOCHS_FROM: Final = 4
"""The first version of ListOffsets with the epochs of leaders."""
_LOG: Final = batches.batch(count=RECORDS)


class Request(NamedTuple):
    """A request that has arrived whole."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any

    @property
    def wait_s(self) -> float:
        """How long a fetch may be parked."""
        return max(0, self.message.max_wait_ms) / 1000 if self.key == apis.FETCH.key else 0.0


def read_request(frame: bytes) -> Request:
    """Return the request in a frame, which begins behind its length."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    schema = requests()[key]
    header, at = codec.decode_at(RequestHeader, frame, 2 if version in schema.flexible else 1, 0)
    message, _ = codec.decode_at(class_of(schema), frame, version, at)
    return Request(key, version, correlation_id, header.client_id, message)


class Broker:
    """`chance` decides which versions it serves."""

    def __init__(self, port: int, chance: random.Random, *, serves_all: bool) -> None:
        self._port: Final = port
        self._composer: Final = HonestComposer(port, chance)
        self._newest: Final = {
            api.key: api.versions[-1] if serves_all else chance.choice(api.versions) for api in APIS.values()
        }

    def response(self, request: Request, login: HonestLogin) -> bytes:
        """Return the frame of the response. `login` is that of the connection."""
        match request.key:
            case apis.API_VERSIONS.key:
                return self._versions(request)
            case apis.SASL_HANDSHAKE.key:
                return _framed(request, SaslHandshakeResponse(mechanisms=list(MECHANISMS)))
            case apis.SASL_AUTHENTICATE.key:
                return _framed(request, login.answer(request.message.auth_bytes))
            case apis.METADATA.key:
                return _framed(request, self._metadata(request.message))
            case apis.INIT_PRODUCER_ID.key:
                return _framed(request, InitProducerIdResponse(producer_id=7))
            case apis.PRODUCE.key:
                return _framed(request, _produced(request.message))
            case apis.FETCH.key:
                return _framed(request, _fetched(request.message))
            case apis.LIST_OFFSETS.key:
                return _framed(request, _offsets(request.message, request.version))
        draft = self._composer.response(request.key, request.version, is_tame=True)
        return draft.frame(request.correlation_id)

    def _versions(self, request: Request) -> bytes:
        is_known = request.version <= self._newest[apis.API_VERSIONS.key]
        served = APIS.values() if is_known else [apis.API_VERSIONS]
        ranges = [
            ApiVersionsResponse.ApiVersion(
                api_key=api.key, min_version=api.versions[0], max_version=self._newest[api.key]
            )
            for api in served
        ]
        code = 0 if is_known else _UNSUPPORTED_VERSION
        response = ApiVersionsResponse(error_code=code, api_keys=ranges)
        return _framed(request, response, version=request.version if is_known else 0)

    def _metadata(self, request: Any) -> MetadataResponse:
        names = [TOPIC] if request.topics is None else [topic.name for topic in request.topics]
        partition = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=NODE, leader_epoch=0, replica_nodes=[NODE], isr_nodes=[NODE]
        )
        return MetadataResponse(
            cluster_id="hostile",
            controller_id=NODE,
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=NODE, host=HOST, port=self._port)],
            topics=[
                MetadataResponse.MetadataResponseTopic(name=name, topic_id=TOPIC_ID, partitions=[partition])
                if name == TOPIC
                else MetadataResponse.MetadataResponseTopic(name=name, error_code=_UNKNOWN_TOPIC)
                for name in names
            ],
        )


def _produced(request: Any) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(index=partition.index)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetched(request: Any) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponse.PartitionData(
                        partition_index=partition.partition,
                        high_watermark=RECORDS,
                        last_stable_offset=RECORDS,
                        log_start_offset=0,
                        records=_LOG if partition.fetch_offset < RECORDS else b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offsets(request: Any, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsResponse.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index,
                        timestamp=-1,
                        offset=RECORDS if partition.timestamp == -1 else 0,
                        leader_epoch=0 if version >= _EPOCHS_FROM else -1,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _framed(request: Request, response: Message, *, version: int | None = None) -> bytes:
    version = request.version if version is None else version
    header_version = APIS[request.key].response_header(version)
    body = codec.encode(ResponseHeader(correlation_id=request.correlation_id), header_version)
    body += codec.encode(response, version)
    return struct.pack(">i", len(body)) + body
