"""AlterUserScramCredentials (key 51), version 0: credentials of users are stored and deleted (KIP-554).

The client sends the password salted and hashed many times. Whoever has that can log in, so it is made into what SCRAM
keeps before it leaves this broker. Each user has one result: either all of its changes are made or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import (
    UNTIMED_S,
    error_fields,
    forward,
    reported_fields,
    until_known,
)
from ottla_broker.kafka.handlers.describe_user_scram_credentials import CODES
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from ottla_core.security.scram import Mechanism, ScramCredential, mechanism_of
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
_Change: TypeAlias = (
    AlterUserScramCredentialsRequest.ScramCredentialDeletion | AlterUserScramCredentialsRequest.ScramCredentialUpsertion
)

_MECHANISMS: Final = {code: mechanism for mechanism, code in CODES.items()}


async def handle(
    backend: Backend, request: AlterUserScramCredentialsRequest, context: KafkaContext
) -> AlterUserScramCredentialsResponse:
    requested: list[_Change] = [*request.deletions, *request.upsertions]
    results: dict[str, _Result | None] = dict.fromkeys(change.name for change in requested)
    refused = context.access.refused(Operation.ALTER)
    if refused is not None:
        return AlterUserScramCredentialsResponse(results=await _failed(results, refused))
    changes, time_slice = list[pb.ScramChange](), Slice()
    for change in requested:
        await time_slice.rest()
        try:
            changes.append(_forwarded(change))
        except OttlaError as error:
            results[change.name] = _Result(user=change.name, **error_fields(error))
    changes = [change for change in changes if results[change.user] is None]
    try:
        altered = await _altered(backend, changes, context.caller.principal)
    except OttlaError as error:
        altered = await _failed((change.user for change in changes), error)
    results |= {result.user: result for result in altered}
    return AlterUserScramCredentialsResponse(results=[result for result in results.values() if result is not None])


async def _failed(users: Iterable[str], error: OttlaError) -> list[_Result]:
    fields = error_fields(error)
    return await sliced(lambda user: _Result(user=user, **fields), users)


async def _altered(backend: Backend, changes: list[pb.ScramChange], principal: str) -> list[_Result]:
    if not changes:
        return []
    request = pb.AlterScramCredentialsRequest()
    await sliced(request.changes.append, changes)
    response = await forward(
        backend, Controller.ALTER_SCRAM_CREDENTIALS, request, principal=principal, limit_s=UNTIMED_S
    )
    results = await sliced(lambda each: _Result(user=each.user, **reported_fields(each.error)), response.users)
    altered = {result.user for result in results if not result.error_code}
    await until_known(backend, partial(_has, [change for change in changes if change.user in altered]))
    return results


def _forwarded(change: _Change) -> pb.ScramChange:
    """Return the change for the controller. Raises UNSUPPORTED_SASL_MECHANISM and UNACCEPTABLE_CREDENTIAL."""
    mechanism = _mechanism(change.mechanism)
    if isinstance(change, AlterUserScramCredentialsRequest.ScramCredentialDeletion):
        return pb.ScramChange(user=change.name, mechanism=mechanism, deletes=True)
    try:
        credential = ScramCredential.of_salted(
            mechanism, bytes(change.salted_password), salt=bytes(change.salt), iterations=change.iterations
        )
    except OttlaError as error:
        raise OttlaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, error.message, hint=error.hint) from None
    return pb.ScramChange(
        user=change.name,
        mechanism=mechanism,
        iterations=credential.iterations,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
    )


def _mechanism(code: int) -> Mechanism:
    mechanism = _MECHANISMS.get(code)
    if mechanism is None:
        raise OttlaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{code} is not the code of a mechanism of SCRAM",
            hint="use SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2)",
        )
    return mechanism


def _has(changes: Iterable[pb.ScramChange], image: ClusterImage) -> bool:
    """Return whether the image has what was stored, and lacks what was deleted."""
    for change in changes:
        known = image.scram.get((change.user, mechanism_of(change.mechanism)))
        if change.deletes != (known is None) or (known is not None and known.stored_key != change.stored_key):
            return False
    return True


API: Final = control(
    AlterUserScramCredentialsRequest,
    (0, 0),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "AlterUserScramCredentialsResponse; KIP-554; ScramControlManager",
        error_codes.CONTROLLER
        | {
            ErrorCode.RESOURCE_NOT_FOUND,
            ErrorCode.DUPLICATE_RESOURCE,
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        },
        instead=error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.ALTER_SCRAM_CREDENTIALS,
)
