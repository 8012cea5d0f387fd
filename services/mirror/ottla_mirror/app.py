"""The mirror's parts are put together here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ottla_core.clock import Clock, SystemClock
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.lifecycle import ServiceApp
from ottla_core.rpc.internal_tls import open_internal_tls
from ottla_core.rpc.server import Around, RpcServer, as_it_is
from ottla_core.security.service_identity import Role
from ottla_core.telemetry import Metrics
from ottla_mirror import mirror_file
from ottla_mirror.config import MirrorConfig
from ottla_mirror.flow import Flow
from ottla_mirror.mirror_metrics import observe
from ottla_mirror.service import MirrorService
from ottla_proto.contracts import Mirror


def build(config: MirrorConfig, *, clock: Clock | None = None, around: Around = as_it_is) -> ServiceApp:
    """Make a mirror of the flows in its file. Raises INVALID_CONFIG if the file has contradictions."""
    settings, clock, metrics = mirror_file.load(config.file), clock or SystemClock(), Metrics()
    flows = [Flow(flow, settings, config.node_id, clock, config.session_timeout_s) for flow in settings.flows]

    def ready() -> str | None:
        """Return None: it serves as soon as it runs, and a cluster that is away is in its status."""
        return None

    tls = open_internal_tls(config, Role.MIRROR)
    server = RpcServer(config.host, config.port, metrics, ready=ready, tls=tls, around=around)
    server.add(Mirror, MirrorService(flows, clock))
    observe(flows, clock, metrics)
    admin = AdminHttp(config.admin_host, config.admin_port, metrics, ready, config.admin_token_file)

    def address() -> str:
        return server.address(config.advertised_host)

    return ServiceApp(f"mirror-{config.node_id}", [admin, server, Flows(flows)], ready, address, metrics=metrics)


class Flows:
    """A component: all flows at once. Threads wait for what the flows wait for."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self.flows: Final = flows

    async def start(self) -> None:
        for flow in self.flows:
            flow.start()

    async def stop(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(flow.stop) for flow in self.flows))
