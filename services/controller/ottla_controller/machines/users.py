"""Users are their SCRAM credentials (KIP-554): one for each mechanism by which they may log in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_controller.machines.decision import Decision, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.scram import Mechanism, ScramCredential

MAX_CREDENTIALS: Final = 100_000
"""Each is a key of some 200 bytes, which every broker holds in memory."""

MAX_NAME: Final = 1_000
"""The longest name of a user, in characters."""

MAX_PER_REQUEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class ScramChange:
    """A credential to be stored, or to be deleted if it is None."""

    user: str
    mechanism: Mechanism
    credential: ScramCredential | None


def decide_alter_scram(image: ClusterImage, changes: Sequence[ScramChange]) -> Decision[dict[str, OttlaError | None]]:
    """Store and delete credentials. The response has, for each user, the reason why nothing of it was changed, or
    None."""
    if len(changes) > MAX_PER_REQUEST:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the request changes {len(changes)} credentials, and one request changes {MAX_PER_REQUEST} at most",
            hint="send several requests",
        )
    by_user: dict[str, list[ScramChange]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)
    results: dict[str, OttlaError | None] = {}
    writes: list[Write] = []
    room = MAX_CREDENTIALS - len(image.scram)
    for user, of_user in by_user.items():
        new = sum(c.credential is not None and (user, c.mechanism) not in image.scram for c in of_user)
        error = results[user] = _rejection(image, user, of_user, has_room=new <= room)
        if error is None:
            room -= new
            writes += [Write(Change(keys.scram(user, c.mechanism), c.credential)) for c in of_user]
    return Decision(results, tuple(writes))


def _rejection(image: ClusterImage, user: str, changes: Sequence[ScramChange], *, has_room: bool) -> OttlaError | None:
    if not 0 < len(user) <= MAX_NAME:
        return OttlaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"a user's name has {len(user)} characters",
            hint=f"give the user a name of 1 to {MAX_NAME} characters",
        )
    if len(dict.fromkeys(change.mechanism for change in changes)) < len(changes):
        return OttlaError(
            ErrorCode.DUPLICATE_RESOURCE,
            "the request changes a user's credential for one mechanism twice",
            hint="name each user and mechanism once",
        )
    for change in changes:
        if change.credential is None and (user, change.mechanism) not in image.scram:
            return OttlaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"the user has no credential for {change.mechanism}",
                hint="`ottla user ls` shows the users and their mechanisms",
            )
    if not has_room:
        return OttlaError(
            ErrorCode.POLICY_VIOLATION,
            f"the cluster has {len(image.scram)} credentials already",
            hint="delete some",
        )
    return None
