"""ACLs are created and deleted one by one, each under a random id, as Kafka's controllers keep them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl
from ottla_core.security.acl_filter import AclFilter

MAX_ACLS: Final = 100_000
"""Each is a key of some 200 bytes, which every broker holds in memory."""

MAX_PER_REQUEST: Final = 10_000
"""The most ACLs that one request creates, or deletes: Kafka's limit for the records of one decision."""


def decide_create_acls(
    image: ClusterImage, acls: Sequence[Acl], *, new_id: Callable[[], bytes]
) -> Decision[list[OttlaError | None]]:
    """Create those that do not exist yet. The response has, for each ACL in order, the reason why it was rejected, or
    None."""
    if len(acls) > MAX_PER_REQUEST:
        raise _too_many(f"creates {len(acls)}")
    results: list[OttlaError | None] = []
    known = dict.fromkeys(image.acls.values())
    writes: list[Write] = []
    for acl in acls:
        error = _rejection(acl)
        if error is None and acl not in known:
            if len(known) >= MAX_ACLS:
                error = OttlaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the cluster has {len(known)} ACLs already",
                    hint="delete some, or give one for a prefix of names",
                )
            else:
                known[acl] = None
                key = keys.acl(new_id())
                writes.append(Write(Change(key, acl), (ReliedOn(key, create_revision=0),)))
        results.append(error)
    return Decision(results, tuple(writes))


def decide_delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Decision[list[list[Acl] | OttlaError]]:
    """Delete all ACLs that match a filter. The response has, for each filter in order, those that it matched, or the
    reason why it was rejected."""
    results: list[list[Acl] | OttlaError] = []
    gone: dict[bytes, None] = {}
    for each in filters:
        try:
            each.check()
        except OttlaError as error:
            results.append(error)
            continue
        matched = {acl_id: acl for acl_id, acl in image.acls.items() if each.matches(acl)}
        gone.update(dict.fromkeys(matched))
        results.append(list(matched.values()))
    if len(gone) > MAX_PER_REQUEST:
        raise _too_many(f"deletes {len(gone)}")
    return Decision(results, tuple(Write(Change(keys.acl(acl_id), None)) for acl_id in gone))


def _rejection(acl: Acl) -> OttlaError | None:
    try:
        acl.check()
    except OttlaError as error:
        return error
    return None


def _too_many(what: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REQUEST,
        f"the request {what} ACLs, and one request changes {MAX_PER_REQUEST} at most",
        hint="send several requests",
    )
