"""What many system tests stand on."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
from rpc_stack import Client, Stack

import ottla
from ottla.testing import Cluster
from ottla_broker.kafka.features import FEATURES
from ottla_broker.kafka.handlers import api_versions
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    etcd = EmbeddedEtcd(plan_etcd(tmp_path_factory.mktemp("etcd")))
    etcd.start()
    yield etcd
    etcd.stop()


@pytest.fixture(scope="module")
def west() -> Iterator[Cluster]:
    """Another cluster, the target of mirrors; the module's own is their source, `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[ottla.Admin]:
    """An Admin of the module's own cluster, or of the cluster that it uses instead."""
    with ottla.Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: ottla.Admin) -> str:
    """A new one, with two partitions."""
    admin.topics.create(name := next(_names), partitions=2)
    return name


@pytest.fixture(params=[TRANSACTIONS_V1, TRANSACTIONS_V2])
def transaction_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of transactions that the brokers have finalized. The test runs once with each."""
    finalized: int = request.param
    features = [f._replace(finalized=finalized) if f.name == "transaction.version" else f for f in FEATURES]
    monkeypatch.setattr(api_versions, "FEATURES", features)
    return finalized


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    """The addresses of the module's own cluster."""
    return cluster.bootstrap


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A server that is told what to answer, for the tests of the adapter."""
    stack = Stack()
    await stack.server.start()
    yield stack
    await stack.server.stop(grace_s=0)


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[Client]:
    client = Client(stack)
    yield client
    await client.close()
