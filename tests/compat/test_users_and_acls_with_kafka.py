"""`Admin.users`, `Admin.acls` and `ottla acl test` with Apache Kafka itself, whose brokers have logins and ACLs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from secured_kafka import USERS, SecuredKafka
from tests.compat.cells import DIFFERS
from waiting import LIMIT_S, wait_until

import ottla
from ottla import Acl, AclFilter, Resource
from ottla.errors import ErrorCode, OttlaError

LISTENER = "SASL_PLAINTEXT"
WRITES = Acl.allow("User:carol", "write", Resource.topic("orders-", prefixed=True))
DENIED = Acl.deny("User:*", "alter", Resource.topic("*"), host="10.0.0.7")
MANAGES = Acl.allow("User:carol", "alter", Resource.cluster())


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), settings={"super.users": "User:ANONYMOUS;User:alice"})
    with kafka.server:
        yield kafka


@pytest.fixture(scope="module")
def alice(kafka: SecuredKafka) -> Iterator[ottla.Admin]:
    with ottla.Admin(kafka.server.bootstrap_of(LISTENER), login=scram("alice", USERS["alice"])) as admin:
        yield admin


@pytest.fixture
def clean(alice: ottla.Admin) -> Iterator[ottla.Admin]:
    yield alice
    alice.acls.delete(AclFilter())
    alice.users.delete("carol", if_missing="ok")


def scram(user: str, password: str) -> ottla.Scram:
    return ottla.Scram(user, password, "SCRAM-SHA-256")


def can_log_in(kafka: SecuredKafka, password: str) -> bool:
    try:
        with ottla.Admin(kafka.server.bootstrap_of(LISTENER), login=scram("carol", password)) as admin:
            admin.topics.list()
    except ottla.AuthenticationError:
        return False
    return True


@DIFFERS.cell
def test_users_are_added_changed_and_deleted(clean: ottla.Admin, kafka: SecuredKafka) -> None:
    clean.users.set_password("carol", "first-secret")
    assert dict(clean.users.describe("carol")[0].iterations) == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
    assert [user.name for user in clean.users.list()] == sorted([*USERS, "carol"])
    wait_until(lambda: can_log_in(kafka, "first-secret"))
    clean.users.set_password("carol", "second-secret", iterations=8192)
    wait_until(lambda: can_log_in(kafka, "second-secret"))
    assert not can_log_in(kafka, "first-secret")
    clean.users.delete("carol", mechanisms=["SCRAM-SHA-256"])
    assert clean.users.describe("carol")[0].mechanisms == ("SCRAM-SHA-512",)
    clean.users.delete("carol")
    with pytest.raises(OttlaError) as caught:
        clean.users.delete("carol")
    assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(ottla.ConfigError):
        clean.users.set_password("carol", "secret", iterations=4095)


@DIFFERS.cell
def test_acls_are_created_found_and_deleted(clean: ottla.Admin) -> None:
    clean.acls.create(WRITES, DENIED, MANAGES)
    clean.acls.create(WRITES)
    assert set(clean.acls.list()) == {WRITES, DENIED, MANAGES}
    assert clean.acls.list(AclFilter("topic", "orders-eu", "match", principal="User:carol")) == [WRITES]
    assert clean.acls.list(AclFilter(permission="deny")) == [DENIED]
    assert clean.acls.delete(DENIED) == [DENIED]
    assert clean.acls.delete(DENIED) == []
    assert set(clean.acls.delete(AclFilter())) == {WRITES, MANAGES}
    with pytest.raises(ottla.ConfigError, match="host"):
        clean.acls.create(Acl.allow("User:carol", "read", Resource.topic("t"), host="10.0.0.0/33"))


@DIFFERS.cell
def test_a_user_who_may_not_change_users_and_acls_is_told_so(clean: ottla.Admin, kafka: SecuredKafka) -> None:
    with ottla.Admin(kafka.server.bootstrap_of(LISTENER), login=scram("bob", USERS["bob"])) as bob:
        for forbidden in (
            lambda: bob.acls.create(WRITES),
            bob.acls.list,
            lambda: bob.acls.delete(WRITES),
            lambda: bob.users.set_password("carol", "secret"),
            bob.users.list,
        ):
            with pytest.raises(ottla.AuthorizationError) as caught:
                forbidden()
            assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@DIFFERS.cell
def test_the_command_line_tests_what_kafka_would_decide(clean: ottla.Admin, kafka: SecuredKafka) -> None:
    clean.acls.create(WRITES, DENIED)

    def decided(line: str) -> tuple[int, Any, str]:
        options = {
            "security.protocol": LISTENER,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password.env": "ALICES",
        }
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "ottla", "-b", kafka.server.bootstrap_of(LISTENER)),
                *(word for name, value in options.items() for word in ("-X", f"{name}={value}")),
                *("acl", "test", *line.split()),
            ],
            env={**os.environ, "ALICES": USERS["alice"]},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return ran.returncode, json.loads(ran.stdout)["decided_by"], ran.stderr

    assert decided("carol write topic:orders-eu")[:2] == (0, "acl")
    assert decided("carol alter topic:orders-eu --host 10.0.0.7")[:2] == (1, "acl")
    code, by, told = decided("carol read topic:orders-eu")
    assert (code, by) == (1, "no_acl_matches")
    assert "warning: the brokers do not show super.users, which may allow more" in told
