"""A server of the Group contract on a real port: a test says what it does with the methods that it is asked."""

from __future__ import annotations

from typing import Any

from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.frames import snake_case
from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics
from ottla_proto.contracts import Group


class GroupServer:
    """A subclass has the methods that clients ask; all others fail the call."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.server = RpcServer("127.0.0.1", 0, self.metrics)

    async def start(self, port: int = 0) -> None:
        """Serve on a port, which may be that of a server that was killed."""
        for method in Group.SERVICE.methods:
            if not hasattr(self, snake_case(method.name)):
                setattr(self, snake_case(method.name), _not_asked)
        self.server = RpcServer("127.0.0.1", port, self.metrics)
        self.server.add(Group, self)
        await self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    @property
    def streams(self) -> float:
        """The open streams of gathered calls."""
        read: Any = self.metrics.samples["ottla_rpc_streams"][(("method", "Calls"),)]
        return float(read())


async def _not_asked(request: Any, context: RequestContext) -> Any:
    raise AssertionError("nobody asks that here")
