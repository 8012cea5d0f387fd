"""`Admin.users` and `Admin.acls` at brokers whose clients log in: what they set counts for logins and requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fuzz.stack import Stack
from users import PASSWORDS, Users
from waiting import LIMIT_S, wait_until

import ottla
import ottla.aio
from ottla import Acl, AclFilter, Resource
from ottla.errors import ErrorCode, OttlaError

TOPIC = "orders-eu"
WRITES = Acl.allow("User:carol", "write", Resource.topic("orders-", prefixed=True))
READS = Acl.allow("User:carol", "read", Resource.topic(TOPIC), host="127.0.0.0/8")
DENIED = Acl.deny("User:*", "write", Resource.topic("*"))
OF_CAROL = AclFilter(principal="User:carol")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guarded")
    settings = {
        "kafka-listener-protocols": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl-credentials-file": Users({"alice": PASSWORDS["alice"]}).write(folder / "users.toml"),
        "authorizer-class-name": "StandardAuthorizer",
        "super-users": "User:alice;User:root",
    }
    with Stack(folder, broker=settings) as stack:
        yield f"127.0.0.1:{stack.kafka_port}"


@pytest.fixture(scope="module")
def alice(address: str) -> Iterator[ottla.Admin]:
    with ottla.Admin(address, login=ottla.Scram("alice", PASSWORDS["alice"], "SCRAM-SHA-256")) as admin:
        admin.topics.create(TOPIC)
        yield admin


@pytest.fixture
def clean(alice: ottla.Admin) -> Iterator[ottla.Admin]:
    """Admin of a cluster without users and ACLs."""
    yield alice
    alice.acls.delete(AclFilter())
    for user in alice.users.list():
        alice.users.delete(user.name)


def can_log_in(address: str, password: str, mechanism: Any, user: str = "carol") -> bool:
    try:
        with ottla.Admin(address, login=ottla.Scram(user, password, mechanism)) as admin:
            admin.topics.list()
    except ottla.AuthenticationError:
        return False
    return True


@pytest.mark.feature(172)
def test_a_user_logs_in_with_its_password_until_it_is_changed_or_the_user_is_deleted(
    clean: ottla.Admin, address: str
) -> None:
    clean.users.set_password("carol", "first-secret")
    (carol,) = clean.users.list()
    assert (carol.name, dict(carol.iterations)) == ("carol", {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096})
    assert can_log_in(address, "first-secret", "SCRAM-SHA-256")
    assert can_log_in(address, "first-secret", "SCRAM-SHA-512")
    clean.users.set_password("carol", ottla.Secret("second-secret"), mechanisms=["SCRAM-SHA-512"], iterations=8192)
    assert can_log_in(address, "first-secret", "SCRAM-SHA-256"), "the other mechanism keeps its password"
    wait_until(lambda: can_log_in(address, "second-secret", "SCRAM-SHA-512"))
    assert not can_log_in(address, "first-secret", "SCRAM-SHA-512")
    clean.users.delete("carol", mechanisms=["SCRAM-SHA-256"])
    assert clean.users.describe("carol")[0].mechanisms == ("SCRAM-SHA-512",)
    clean.users.delete("carol")
    assert not clean.users.exists("carol")
    assert not can_log_in(address, "second-secret", "SCRAM-SHA-512")


def test_a_missing_user_is_named_with_the_nearest_one(clean: ottla.Admin) -> None:
    clean.users.set_password("carol", "first-secret", mechanisms=["SCRAM-SHA-256"])
    for missing in (lambda: clean.users.delete("caroll"), lambda: clean.users.describe("carol", "caroll")):
        with pytest.raises(OttlaError, match="there is no user 'caroll'") as caught:
            missing()
        assert (caught.value.code, caught.value.hint) == (ErrorCode.RESOURCE_NOT_FOUND, "did you mean carol?")
    with pytest.raises(OttlaError, match="has no password for SCRAM-SHA-512") as caught:
        clean.users.delete("carol", mechanisms=["SCRAM-SHA-512"])
    assert caught.value.hint == "it has SCRAM-SHA-256"
    clean.users.delete("caroll", if_missing="ok")


@pytest.mark.feature(172)
def test_acls_are_created_found_by_filters_and_deleted(clean: ottla.Admin) -> None:
    clean.acls.create(WRITES, READS, DENIED, WRITES)
    clean.acls.create(WRITES)
    assert sorted(clean.acls.list(), key=str) == sorted([WRITES, READS, DENIED], key=str)
    assert sorted(clean.acls.list(OF_CAROL), key=str) == sorted([READS, WRITES], key=str)
    assert clean.acls.list(AclFilter("topic", "orders-", "prefixed")) == [WRITES]
    assert len(clean.acls.list(AclFilter("topic", TOPIC, "match"))) == 3
    assert clean.acls.list(AclFilter("topic", "invoices", "match")) == [DENIED]
    assert clean.acls.list(AclFilter(permission="deny", operation="write")) == [DENIED]
    assert clean.acls.delete(READS, READS) == [READS]
    assert clean.acls.delete(READS) == []
    assert clean.acls.delete() == []
    assert clean.acls.delete(AclFilter(permission="deny"), OF_CAROL) == [DENIED, WRITES]
    assert clean.acls.list() == []


@pytest.mark.feature(172)
def test_an_acl_counts_once_it_is_created_and_until_it_is_deleted(clean: ottla.Admin, address: str) -> None:
    clean.users.set_password("carol", "first-secret")
    login = ottla.Scram("carol", "first-secret", "SCRAM-SHA-256")
    for acls, expected in (((), False), ((WRITES,), True), ((DENIED,), False)):
        clean.acls.create(*acls)
        with ottla.Producer(address, topic=TOPIC, value="bytes", login=login) as producer:
            if expected:
                producer.send(b"v").result(LIMIT_S)
            else:
                with pytest.raises(ottla.AuthorizationError):
                    producer.send(b"v").result(LIMIT_S)


def test_who_may_not_alter_the_cluster_is_told_so(clean: ottla.Admin, address: str) -> None:
    clean.users.set_password("carol", "first-secret")
    with ottla.Admin(address, login=ottla.Scram("carol", "first-secret", "SCRAM-SHA-256")) as carol:
        for forbidden in (
            lambda: carol.acls.create(WRITES),
            lambda: carol.acls.list(),
            lambda: carol.acls.delete(AclFilter()),
            lambda: carol.users.set_password("carol", "another"),
            lambda: carol.users.list(),
            lambda: carol.users.delete("carol", mechanisms=["SCRAM-SHA-256"]),
        ):
            with pytest.raises(ottla.AuthorizationError) as caught:
                forbidden()
            assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_broker_describes_who_may_log_in_and_what_is_authorized(alice: ottla.Admin) -> None:
    broker = alice.cluster.describe().brokers[0].id
    configs = alice.configs.get(broker=broker)
    found = {name: (configs[name].value, configs[name].source) for name in configs}
    assert found["authorizer.class.name"] == ("StandardAuthorizer", "STATIC_BROKER_CONFIG")
    assert found["super.users"] == ("User:alice;User:root", "STATIC_BROKER_CONFIG")
    assert found["allow.everyone.if.no.acl.found"] == ("false", "DEFAULT_CONFIG")
    assert found["listener.security.protocol.map"] == ("PLAINTEXT:SASL_PLAINTEXT", "STATIC_BROKER_CONFIG")
    assert found["sasl.enabled.mechanisms"] == ("SCRAM-SHA-256,SCRAM-SHA-512", "STATIC_BROKER_CONFIG")
    assert found["connection.failed.authentication.delay.ms"] == ("100", "DEFAULT_CONFIG")
    assert found["listeners"][0].startswith("PLAINTEXT://127.0.0.1:")
    assert all(configs[name].read_only and configs[name].enforced for name in ("super.users", "listeners"))
    assert "super.users" not in alice.configs.get(), "it is not a config of the cluster"


def test_asyncio_has_both(clean: ottla.Admin, address: str) -> None:
    async def use() -> list[Acl]:
        login = ottla.Scram("alice", PASSWORDS["alice"], "SCRAM-SHA-256")
        async with ottla.aio.Admin(address, login=login) as admin:
            await admin.acls.create(READS)
            await admin.users.set_password("carol", "first-secret")
            assert [user.name for user in await admin.users.list()] == ["carol"]
            return await admin.acls.list()

    assert asyncio.run(use()) == [READS]
