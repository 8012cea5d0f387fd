"""ApiVersions (key 18), versions 0 to 5, says what the table of APIs serves, and nothing else.

It is the first request of a connection, before the client knows what the broker understands. So it can't rely on a
common version: a client may ask in a version that this broker has never heard of. The response is then v0, which every
client reads, with UNSUPPORTED_VERSION and the range of this API alone, and the client asks again within that range
(rule 71, KIP-511).

v1 adds the throttle time. v3 adds the client's name and version, which are checked, and features (KIP-584). v4 has
those of them that may be at 0 (KIP-1022). v5 adds the cluster and the broker that the client expects here: if it has
reached another one, it is told to bootstrap again (KIP-1242).

A client that calls itself "ottla" is also shown the private API, which is served on this connection from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.api import Api
from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.features import FEATURES
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire.frames import KafkaContext, Parts
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import ApiVersionsRequest, ApiVersionsResponse

KEY: Final = ApiVersionsRequest.API_KEY
_ERRORS: Final = error_codes.Errors(
    "ApiVersionsResponse; KafkaApis, handleApiVersionsRequest; KIP-511, KIP-1242",
    since={ErrorCode.REBOOTSTRAP_REQUIRED: error_codes.Since(5, ErrorCode.INVALID_REQUEST)},
)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMED_FROM: Final = 3
# Readers of older versions take a minimum of 0 for an invalid feature, so such features are left out before v4.
_ZERO_FROM: Final = 4
_EXPECTS_FROM: Final = 5
_ANY_NODE: Final = -1
_NO_FEATURES: Final[Mapping[str, Any]] = {}


class Served(Protocol):
    """An API as it is advertised (apis.Api)."""

    @property
    def key(self) -> int: ...
    @property
    def advertised_min(self) -> int: ...
    @property
    def max_version(self) -> int: ...


def handle(backend: Backend, context: KafkaContext, apis: Iterable[Served], private: Served) -> Parts:
    request = codec.decode(ApiVersionsRequest, context.version, context.body)
    features = _features(backend, context.version)
    # Kafka checks both with this pattern (KIP-511), so a client that is accepted here is accepted there.
    if context.version >= _NAMED_FROM and not all(
        _SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version)
    ):
        return _encoded(context.version, ErrorCode.INVALID_REQUEST, (), features)
    if context.version >= _EXPECTS_FROM and (error := _check_expected(backend, request)):
        return _encoded(context.version, error, (), features)
    context.caller.announce(request.client_software_name)
    shown = (*apis, private) if context.caller.is_ottlas else tuple(apis)
    return _encoded(context.version, ErrorCode.NONE, shown, features)


def _check_expected(backend: Backend, request: ApiVersionsRequest) -> ErrorCode:
    """Compare the cluster and the broker that the client expects with these. It names both or neither."""
    if (request.cluster_id is None) != (request.node_id == _ANY_NODE):
        return ErrorCode.INVALID_REQUEST
    here = (backend.image.cluster_id, backend.node_id)
    if request.cluster_id is None or (request.cluster_id, request.node_id) == here:
        return ErrorCode.NONE
    return ErrorCode.REBOOTSTRAP_REQUIRED


def unsupported(own: Served) -> Parts:
    """Build the response to a version that is not served: version 0, which every client reads, with this API's range
    alone."""
    return _encoded(0, ErrorCode.UNSUPPORTED_VERSION, (own,))


def _encoded(
    version: int, error: ErrorCode, apis: Sequence[Served], features: Mapping[str, Any] = _NO_FEATURES
) -> Parts:
    ranges = [
        ApiVersionsResponse.ApiVersion(api_key=api.key, min_version=api.advertised_min, max_version=api.max_version)
        for api in apis
    ]
    return codec.encode(ApiVersionsResponse(error_code=int(error), api_keys=ranges, **features), version, _ERRORS)


def _features(backend: Backend, version: int) -> dict[str, Any]:
    """Return the features. As in Kafka, their epoch is that of the cluster's metadata, which grows with each change."""
    if version < _NAMED_FROM:
        return {}
    supported, finalized = ApiVersionsResponse.SupportedFeatureKey, ApiVersionsResponse.FinalizedFeatureKey
    return {
        "supported_features": [
            supported(name=feature.name, min_version=feature.least, max_version=feature.most)
            for feature in FEATURES
            if feature.least or version >= _ZERO_FROM
        ],
        "finalized_features_epoch": backend.image.revision,
        "finalized_features": [
            finalized(name=feature.name, max_version_level=feature.finalized, min_version_level=feature.finalized)
            for feature in FEATURES
        ],
    }


def api(served: Callable[[], Iterable[Served]], private: Served) -> Api:
    """Return the API. `served` are the APIs that it shows to every client, including itself."""

    def handler(backend: Backend, context: KafkaContext) -> HandlerResult:
        return handle(backend, context, served(), private)

    return Api(ApiVersionsRequest, (0, 5), handler, needs=NOTHING, errors=_ERRORS)
