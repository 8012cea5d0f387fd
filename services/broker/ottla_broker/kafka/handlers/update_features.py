"""UpdateFeatures (key 57), versions 0 to 2: the levels of features, of which this release serves one each (KIP-584).

v1 adds kinds of upgrades and validate_only (KIP-778); v2 has no results (KIP-1022). Features are updated together or
not at all: where one is rejected, the response has its error at the top and no results, in every version as in Kafka.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.features import FEATURES
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla_proto.operation import Operation

_Result: TypeAlias = UpdateFeaturesResponse.UpdatableFeatureResult
_RESULTS_UNTIL: Final = 1
_FINALIZED: Final = {feature.name: feature.finalized for feature in FEATURES}


def handle(backend: Backend, request: UpdateFeaturesRequest, context: KafkaContext) -> UpdateFeaturesResponse:
    version = context.version
    updates = {update.feature: update for update in request.feature_updates}
    # The first rejection ends the search, so this looks at no more updates than there are features.
    failed = context.access.refused(Operation.ALTER) or next(filter(None, map(_rejection, updates.values())), None)
    if failed is not None:
        return UpdateFeaturesResponse(**error_fields(failed))
    if version > _RESULTS_UNTIL:
        return UpdateFeaturesResponse(error_code=0, error_message=None)
    results = [_Result(feature=name, error_code=0, error_message=None) for name in updates]
    return UpdateFeaturesResponse(error_code=0, error_message=None, results=results)


def _rejection(update: UpdateFeaturesRequest.FeatureUpdateKey) -> OttlaError | None:
    level = _FINALIZED.get(update.feature)
    if level is None:
        return OttlaError(ErrorCode.INVALID_UPDATE_VERSION, f"there is no feature {update.feature[:60]!r}")
    if update.max_version_level != level:
        return OttlaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{update.feature} is at level {level}, the only level that this release supports",
        )
    return None


API: Final = control(
    UpdateFeaturesRequest,
    (0, 2),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "UpdateFeaturesResponse; QuorumController, updateFeatures; KIP-584",
        error_codes.CONTROLLER | {ErrorCode.INVALID_UPDATE_VERSION},
        instead=error_codes.LOST_CONTROLLER,
    ),
)
