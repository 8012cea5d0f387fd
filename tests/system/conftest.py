"""What many system tests stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from rpc_stack import Client, Stack

from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    etcd = EmbeddedEtcd(plan_etcd(tmp_path_factory.mktemp("etcd")))
    etcd.start()
    yield etcd
    etcd.stop()


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A server that is told what to answer, for the tests of the adapter."""
    stack = Stack()
    await stack.server.start()
    yield stack
    await stack.server.stop(grace_s=0)


@pytest.fixture
def client(stack: Stack) -> Client:
    return Client(stack)
