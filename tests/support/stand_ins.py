"""Stand-in brokers: they register under a lease and answer gRPC's health service, and do nothing else.

In this process (`StandIn`), or as one of its own that can be killed and stopped (`StandInProcess`).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.image import Broker
from ottla_core.cluster.session import LeaseSession
from ottla_core.cluster.store import Delete, MetaStore, Put
from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics

T = 5.0


class StandIn:
    """`fields` are of its registration, such as `unclean=True`."""

    def __init__(self, store: MetaStore, cluster_id: str, broker_id: int, *, ttl_s: int = 6, **fields: Any) -> None:
        self.id = broker_id
        self._store = store
        self._cluster_id = cluster_id
        self._fields = fields
        self._server = RpcServer("127.0.0.1", 0, Metrics())
        self._session = LeaseSession(store, ttl_s, self._register)
        self.epoch = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    async def start(self) -> StandIn:
        await self._server.start()
        await self._session.start(T)
        return self

    async def stop(self) -> None:
        """In order: the registration goes, then the port."""
        await self._session.stop(T)
        await self._server.stop()

    async def kill(self) -> None:
        """As SIGKILL would: the connections break, the port refuses, the lease runs out by itself."""
        await self._session.abandon()
        await self._server.kill()

    async def lose_session(self) -> None:
        """What a stalled etcd does: the lease ends, and the process finds out when it next asks for it."""
        assert self._session.lease is not None
        await self._store.revoke_lease(self._session.lease, timeout=T)

    async def freeze(self) -> None:
        """As SIGSTOP would, for whoever looks at its lease; to whoever asks, it goes."""
        await self._session.abandon()
        await self._server.stop(grace_s=0)

    async def _register(self, lease: int) -> None:
        """A former life of it goes first: a death and a birth, in one look of whoever watches."""
        key = keys.broker(self.id)
        text = keys.key_text(self._cluster_id, key)
        registered = Broker(self.id, 0, f"directory-{self.id}", self.address, incarnation=f"i{self.id}", fenced=False)
        await self._store.txn([], [Delete(text)], timeout=T)
        for fenced in (True, False):
            value = encode(key, replace(registered, fenced=fenced, **self._fields))
            done = await self._store.txn([], [Put(text, value, lease)], timeout=T)
            self.epoch = done.revision if fenced else self.epoch


class StandInProcess:
    """A stand-in with a process of its own, on a real etcd."""

    def __init__(self, etcd: str, cluster_id: str, broker_id: int, ttl_s: int = 6) -> None:
        command = [sys.executable, str(Path(__file__)), etcd, cluster_id, str(broker_id), str(ttl_s)]
        self.process = subprocess.Popen(command)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


async def _main(etcd: str, cluster_id: str, broker_id: str, ttl_s: str) -> None:
    store = EtcdStore([etcd])
    await StandIn(store, cluster_id, int(broker_id), ttl_s=int(ttl_s)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
