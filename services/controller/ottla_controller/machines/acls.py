"""ACLs are created and deleted one by one, each under a random id, as Kafka's controllers keep them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType

MAX_ACLS: Final = 100_000
"""Each is a key of some 200 bytes, which every broker holds in memory."""

MAX_PER_REQUEST: Final = 10_000
"""The most ACLs that one request creates, or deletes: Kafka's limit for the records of one decision."""

_MOST_COMPARISONS: Final = 200_000
"""How often one request compares an ACL with a filter. Kafka has no such limit. 200,000 take about 0.1 s, in which the
controller does nothing else."""


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
    if len(filters) > MAX_PER_REQUEST:
        raise _too_many(f"has {len(filters)} filters of")
    results: list[list[Acl] | OttlaError] = []
    gone: dict[bytes, None] = {}
    by_name: defaultdict[str, dict[bytes, Acl]] = defaultdict(dict)
    if any(_has_one_name(each) for each in filters):
        for acl_id, acl in image.acls.items():
            by_name[acl.name][acl_id] = acl
    comparisons = 0
    for each in filters:
        try:
            each.check()
        except OttlaError as error:
            results.append(error)
            continue
        candidates = by_name.get(each.name or "", {}) if _has_one_name(each) else image.acls
        comparisons += len(candidates)
        if comparisons > _MOST_COMPARISONS:
            raise _too_many_comparisons()
        matched = {acl_id: acl for acl_id, acl in candidates.items() if each.matches(acl)}
        gone.update(dict.fromkeys(matched))
        results.append(list(matched.values()))
    if len(gone) > MAX_PER_REQUEST:
        raise _too_many(f"deletes {len(gone)}")
    return Decision(results, tuple(Write(Change(keys.acl(acl_id), None)) for acl_id in gone))


def _has_one_name(each: AclFilter) -> bool:
    """Return whether all ACLs that match the filter have its name."""
    return each.name is not None and each.pattern_type is not PatternType.MATCH


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


def _too_many_comparisons() -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REQUEST,
        f"the filters of one request are compared with {_MOST_COMPARISONS} ACLs at most",
        hint="name the resource in each filter, or send several requests",
    )
