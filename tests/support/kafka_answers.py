"""A broker of Kafka without a socket: it reads what a connection writes, and makes the bytes of responses."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.kafka import apis
from ottla.client.kafka.apis import API_VERSIONS, OTTLA_CALL, AnyApi, Api
from ottla.client.kafka.connection import KafkaConnection
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import ApiVersionsResponse, RequestHeader, ResponseHeader

APIS = {api.key: api for api in reversed(vars(apis).values()) if isinstance(api, Api)}
"""The APIs by key. If an API has a second entry with fewer versions, this is the first."""
SERVED = [(api.key, api.versions[0], api.versions[-1]) for api in APIS.values() if api is not OTTLA_CALL]


class Request(NamedTuple):
    """A request that has arrived whole."""

    api: AnyApi
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


class AnsweringBroker:
    """`requests` have come and were not answered yet. `finalized` has the levels of features."""

    def __init__(self, served: Iterable[tuple[int, int, int]] = SERVED, *, versions_of_versions: int = 5) -> None:
        self.served = [ApiVersionsResponse.ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in served]
        self.versions_of_versions = versions_of_versions
        self.finalized: dict[str, int] = {}
        self.requests: list[Request] = []
        self.bytes = b""

    def read(self, data: bytes) -> None:
        self.bytes += data
        while len(self.bytes) >= 4 and len(self.bytes) >= 4 + (size := struct.unpack_from(">i", self.bytes)[0]):
            frame, self.bytes = self.bytes[4 : 4 + size], self.bytes[4 + size :]
            self.requests.append(read_request(frame))

    def take(self, connection: KafkaConnection[object]) -> None:
        """Read all that the connection writes."""
        while pieces := connection.output():
            data = b"".join(pieces)
            self.read(data)
            connection.on_written(len(data))

    def negotiate(self, connection: KafkaConnection[object], now: float = 0.0) -> None:
        """Connect, and answer ApiVersions until the connection is ready."""
        connection.on_connected(now)
        self.take(connection)
        while self.requests and self.requests[0].api is API_VERSIONS:
            connection.on_bytes(self.versions(self.requests.pop(0)))
            self.take(connection)

    def versions(self, request: Request) -> bytes:
        """Return the response to ApiVersions, as Kafka's brokers give it."""
        if request.version > self.versions_of_versions:
            ranges = [each for each in self.served if each.api_key == API_VERSIONS.key]
            return framed(request, ApiVersionsResponse(error_code=35, api_keys=ranges), version=0)
        of_feature = ApiVersionsResponse.FinalizedFeatureKey
        features = [of_feature(name=n, max_version_level=at, min_version_level=at) for n, at in self.finalized.items()]
        return framed(request, ApiVersionsResponse(api_keys=self.served, finalized_features=features))


def read_request(frame: bytes) -> Request:
    key, version = struct.unpack_from(">hh", frame)
    api = APIS[key]
    header, at = codec.decode_at(RequestHeader, frame, api.request_header(version), 0)
    message = codec.decode(api.request, frame[at:], version)
    return Request(api, version, header.correlation_id, header.client_id, message)


def framed(request: Request, response: Message, *, version: int | None = None) -> bytes:
    """Return the frame of a response."""
    version = request.version if version is None else version
    header = codec.encode(ResponseHeader(correlation_id=request.correlation_id), request.api.response_header(version))
    body = header + codec.encode(response, version)
    return struct.pack(">i", len(body)) + body
