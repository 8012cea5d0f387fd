"""DescribeUserScramCredentials (key 50), version 0: the mechanisms of users, and never their secrets (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from ottla_core.security.scram import Mechanism
from ottla_proto.operation import Operation

CODES: Final[Mapping[Mechanism, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's codes of the mechanisms."""

_Result: TypeAlias = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Info: TypeAlias = DescribeUserScramCredentialsResponse.CredentialInfo

_UNKNOWN: Final = OttlaError(
    ErrorCode.RESOURCE_NOT_FOUND, "there is no such user", hint="`ottla user ls` shows the users"
)
_TWICE: Final = OttlaError(ErrorCode.DUPLICATE_RESOURCE, "the request names a user twice", hint="name each user once")


async def handle(
    backend: Backend, request: DescribeUserScramCredentialsRequest, context: KafkaContext
) -> DescribeUserScramCredentialsResponse:
    refused = context.access.refused(Operation.DESCRIBE)
    if refused is not None:
        return DescribeUserScramCredentialsResponse(**error_fields(refused), results=[])
    infos: dict[str, list[_Info]] = {}
    for (user, mechanism), credential in sorted(backend.image.scram.items(), key=lambda item: item[0]):
        info = _Info(mechanism=CODES[mechanism], iterations=credential.iterations)
        infos.setdefault(user, []).append(info)
    named = Counter(user.name for user in request.users or ())

    def result(user: str) -> _Result:
        if named[user] > 1:
            return _Result(user=user, **error_fields(_TWICE))
        if user not in infos:
            return _Result(user=user, **error_fields(_UNKNOWN))
        return _Result(user=user, error_message=None, credential_infos=infos[user])

    results = await sliced(result, list(named or infos))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


API: Final = control(
    DescribeUserScramCredentialsRequest,
    (0, 0),
    handle,
    needs=DESCRIBE_CLUSTER,
    errors=error_codes.Errors(
        "DescribeUserScramCredentialsResponse; KIP-554",
        frozenset({ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
    ),
)
