"""The flow's leader gives the copies their topics' ACLs, if the flow's `sync_acls` says so.

Copying does not wait for it: records are copied even if the mirror may not list or create ACLs, or if a cluster has no
authorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import ottla
from ottla_core.errors import ErrorCode
from ottla_core.plural import counted
from ottla_core.security.acl import Acl
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import Admin
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.acl_plan import plan_acls
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.flow_state import FlowState

logger = logging.getLogger("ottla.mirror")

_STEP_S: Final = 1.0
_AGAIN_S: Final = 30.0
"""After a look that has failed, the next one comes in this time, or sooner if the flow's interval is shorter."""


class AclSync(Chore):
    """This chore copies the ACLs of one flow."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, names: TopicNames, state: FlowState
    ) -> None:
        super().__init__(f"{flow.name}: ACLs are not copied at the moment")
        self._flow: Final = flow
        self._source: Final = source
        self._target: Final = target
        self._names: Final = names
        self._state: Final = state
        self._look_in = 0.0
        self._unguarded: Final[set[str]] = set()
        """These clusters had no authorizer when they were asked last."""

    def work(self) -> None:
        every_s = float(self._flow.sync_acls_interval_s)
        while not self.stopping.wait(_STEP_S):
            if not self._state.acts:
                self._look_in = 0.0
                self.went_well()
            elif (left_s := self._look_in - _STEP_S) > 0:
                self._look_in = left_s
            else:
                self._look_in = min(_AGAIN_S, every_s)  # until the look has gone well
                self._look()
                self._look_in = every_s
                self.went_well()

    def _look(self) -> None:
        flow, client = self._flow, f"{self._flow.group}-acls"
        with self._source.open_admin(client) as source, self._target.open_admin(client) as target:
            existing = self._acls_of(source, flow.source, needed="describe")
            copies = self._acls_of(target, flow.target, needed="alter")
            if existing is None or copies is None:
                return
            if missing := plan_acls(self._names, existing, copies):
                with _explained(f"create ACLs in {flow.target}", needed="alter"):
                    target.create_acls(missing)
                logger.info("flow %s: created %s in %s", flow.name, counted(len(missing), "ACL"), flow.target)

    def _acls_of(self, cluster: Admin, alias: str, *, needed: str) -> Collection[Acl] | None:
        """Return the ACLs of a cluster's topics, or None if it has no authorizer, which is logged once."""
        try:
            with _explained(f"list the ACLs of {alias}", needed=needed):
                found = cluster.topic_acls()
        except ottla.OttlaError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            if alias not in self._unguarded:
                self._unguarded.add(alias)
                logger.info("flow %s: no ACLs are copied, because %s has no authorizer", self._flow.name, alias)
            return None
        self._unguarded.discard(alias)
        return found


@contextmanager
def _explained(what: str, *, needed: str) -> Iterator[None]:
    """Tell the operator which right the mirror lacks: `needed` is an operation on the cluster."""
    try:
        yield
    except ottla.AuthorizationError as error:
        raise ottla.AuthorizationError(
            error.code,
            f"the mirror's user may not {what}",
            hint=f"allow it by `ottla acl add USER {needed} cluster` there, or set sync_acls = false",
        ) from error
