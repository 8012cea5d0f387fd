"""FindCoordinator: a live broker, which passes on to the service behind it. There is none yet, for any key."""

from __future__ import annotations

from typing import Final

from kafka.protocol.metadata import FindCoordinatorResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import Request
from ottla_core.errors import ErrorCode

_MANY_FROM: Final = 4
_WORDS: Final = "no coordinator is served in this cluster yet: use assign() instead of a group, and no transactional.id"


def answer(backend: Backend, asked: Message, request: Request) -> Message:
    version, code = request.version, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    nobody = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": _WORDS}
    if version < _MANY_FROM:
        return FindCoordinatorResponse(version=version, **nobody)
    coordinator = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        version=version, coordinators=[coordinator(version=version, key=k, **nobody) for k in asked.coordinator_keys]
    )
