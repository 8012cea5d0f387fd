"""The decisions that a connection has already got."""

from __future__ import annotations

from typing import Final

from ottla_core.security.authorizer import Authorizer
from ottla_core.security.decision import Decision
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_MOST_ENTRIES: Final = 1000
_LONGEST_NAME: Final = 249
"""The longest name that a topic may have. Decisions about longer ids of groups and transactions are not kept."""
_NONE: Final = -1
_Key = tuple[Operation, ResourceType, str | None]


class Decisions:
    """The decisions for one principal at one host, which it keeps as long as the ACLs have the same revision.

    It forgets them all when there are `most_entries`. The authorizer comes with each call, so that an idle connection
    keeps no ACLs alive.
    """

    def __init__(self, principal: str, host: str, *, most_entries: int = _MOST_ENTRIES) -> None:
        self._principal: Final = principal
        self._host: Final = host
        self._most_entries: Final = most_entries
        self._kept: Final[dict[_Key, Decision]] = {}
        self._revision = _NONE

    def __len__(self) -> int:
        return len(self._kept)

    def decide(self, authorizer: Authorizer, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """Decide as the authorizer does."""
        key = (operation, resource_type, name)
        decision = self._of(authorizer.revision).get(key)
        if decision is None:
            decision = authorizer.decide(self._principal, self._host, operation, resource_type, name)
            if len(name) <= _LONGEST_NAME:
                self._keep(key, decision)
        return decision

    def decide_any(self, authorizer: Authorizer, operation: Operation, resource_type: ResourceType) -> Decision:
        """Decide about at least one resource of the type as the authorizer does."""
        key = (operation, resource_type, None)
        decision = self._of(authorizer.revision).get(key)
        if decision is None:
            decision = authorizer.decide_any(self._principal, self._host, operation, resource_type)
            self._keep(key, decision)
        return decision

    def _of(self, revision: int) -> dict[_Key, Decision]:
        """Return what is kept of a revision, which is nothing if the last one was another."""
        if revision != self._revision:
            self._kept.clear()
            self._revision = revision
        return self._kept

    def _keep(self, key: _Key, decision: Decision) -> None:
        if len(self._kept) >= self._most_entries:
            self._kept.clear()
        self._kept[key] = decision
