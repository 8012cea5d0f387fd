"""ApiVersions (key 18), versions 0 to 4: what the table of APIs serves, and nothing else (rule 71, KIP-511).

v1 adds the throttle time; v3 the client's name and version, which are checked. An unknown version is answered in v0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from ottla_broker.kafka import codec
from ottla_broker.kafka.frames import KafkaContext, Parts
from ottla_core.errors import ErrorCode

KEY: Final = 18
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM: Final = 3


class Served(Protocol):
    """An API as it is advertised (apis.Api)."""

    @property
    def key(self) -> int: ...
    @property
    def advertised_min(self) -> int: ...
    @property
    def max_version(self) -> int: ...


def handle(context: KafkaContext, apis: Iterable[Served]) -> Parts:
    request = codec.decode(ApiVersionsRequest, context.version, context.body)
    if context.version >= _NAMED_FROM and not all(
        _SOFTWARE.fullmatch(text or "") for text in (request.client_software_name, request.client_software_version)
    ):
        return _encoded(context.version, ErrorCode.INVALID_REQUEST, ())
    return _encoded(context.version, ErrorCode.NONE, tuple(apis))


def unsupported(own: Served) -> Parts:
    """For a version that is not served: as version 0, which every client reads, with this API's range alone."""
    return _encoded(0, ErrorCode.UNSUPPORTED_VERSION, (own,))


def _encoded(version: int, error: ErrorCode, apis: Sequence[Served]) -> Parts:
    ranges = [
        ApiVersionsResponse.ApiVersion(
            version=version, api_key=api.key, min_version=api.advertised_min, max_version=api.max_version
        )
        for api in apis
    ]
    return codec.encode(ApiVersionsResponse(version=version, error_code=int(error), api_keys=ranges))
