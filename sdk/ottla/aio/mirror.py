"""MirrorClient for asyncio: every method of ottla.MirrorClient as a coroutine that runs on a thread."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ottla.aio.admin import Facade, threaded
from ottla.aio.arguments import same_arguments
from ottla.mirror.client import MirrorClient as SyncMirrorClient


class MirrorClient(Facade[SyncMirrorClient]):
    """A client of a mirror, or of brokers that forward to mirrors, with the arguments of ottla.MirrorClient."""

    @same_arguments(SyncMirrorClient)
    def __init__(self, *args: Any, **arguments: Any) -> None:
        super().__init__(SyncMirrorClient(*args, **arguments))

    flows = threaded(SyncMirrorClient.flows)
    flow = threaded(SyncMirrorClient.flow)
    translate = threaded(SyncMirrorClient.translate)
    positions = threaded(SyncMirrorClient.positions)
    pause = threaded(SyncMirrorClient.pause)
    resume = threaded(SyncMirrorClient.resume)
    failover = threaded(SyncMirrorClient.failover)
    failback = threaded(SyncMirrorClient.failback)
    verify = threaded(SyncMirrorClient.verify)
    close = threaded(SyncMirrorClient.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
