"""A mirror of the measured cluster that can be taken away and brought back, with a flow for each way of delivery.

A flow is named by its two clusters, so the source has an alias for each flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import ottla_mirror.app
from ottla_core.host_port import HostPort
from ottla_core.process.lifecycle import ServiceApp
from ottla_mirror.config import MirrorConfig
from ottla_stack.cluster import Cluster, InProcessService

DELIVERIES: Final[Mapping[str, str]] = MappingProxyType(
    {"least": "at_least_once", "once": "exactly_once", "same": "same_offsets"}
)
"""A flow's delivery, by the alias that the flow has for the source."""

TARGET: Final = "target"
SESSION_S: Final = 600.0
"""The harness moves the clock by less while no heartbeat is sent."""

_FLOW: Final = """
[[flows]]
source = "{alias}"
target = "{target}"
delivery = "{delivery}"
topics = {topics}
groups = {groups}
"""


class RunningMirror(InProcessService):
    """It belongs to the source, and has its clock."""

    def __init__(self, source: Cluster, target: Cluster, number: int, deliveries: Mapping[str, str]) -> None:
        super().__init__(source, "mirror", number)
        self._target: Final = target
        self._deliveries: Final = deliveries

    @property
    def address(self) -> str:
        """gRPC host:port; another one after a restart."""
        assert self._app is not None, "it runs"
        return self._app.address()

    def _build(self) -> ServiceApp:
        file = Path(self._cluster._folder.name, f"{self.name}.toml")
        file.write_text(_configuration(self._cluster.bootstrap, self._target.bootstrap, self._deliveries))
        config = MirrorConfig(self.id, str(file), port=0, admin_port=0, session_timeout_s=SESSION_S)
        around = self._cluster.faults.around(self.name)
        return ottla_mirror.app.build(config, clock=self._cluster.clock, around=around)

    def _addresses(self) -> tuple[HostPort, ...]:
        return ()

    def _keep_ports(self, app: ServiceApp) -> None:
        """Nothing: clients are opened anew for each call."""


def _configuration(source: str, target: str, deliveries: Mapping[str, str]) -> str:
    clusters = "".join(f'{alias} = "{source}"\n' for alias in deliveries)
    flows = (
        _FLOW.format(alias=alias, target=TARGET, delivery=delivery, topics=TOPICS, groups=GROUPS)
        for alias, delivery in deliveries.items()
    )
    return f'[clusters]\n{clusters}{TARGET} = "{target}"\n{"".join(flows)}'


TOPICS: Final = ["read", "m-.*"]
GROUPS: Final = ["nudged", "m-.*"]
"""What the flows take: regular expressions."""
