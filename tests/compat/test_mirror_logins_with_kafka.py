"""A mirror whose source or target is an Apache Kafka that expects logins: it copies records and ACLs, and no password
is anywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from mirror_process import MirrorProcess
from secured_cluster import secured_cluster
from secured_kafka import USERS, SecuredKafka
from tests.compat.cells import DIFFERS
from tests.compat.flows import LIMIT_S, PARTITIONS, RECORDS, Side
from waiting import wait_until

import ottla
from ottla import Acl, AclFilter, Resource
from ottla_stack.cluster import Cluster

LOGIN_MS = 3000
"""Connections have to log in again and again, while the mirror copies."""
DEBUG = {"OTTLA_MIRROR__LOG_LEVEL": "DEBUG"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(
        tmp_path_factory.mktemp("kafka"),
        reauthenticates_ms=LOGIN_MS,
        settings={"super.users": "User:ANONYMOUS;User:alice"},
    )
    with kafka.server:
        yield kafka


@pytest.fixture
def ours() -> Iterator[Cluster]:
    with Cluster(txn_coordinators=1) as cluster:
        yield cluster


def has_secret(text: str | bytes) -> bool:
    data = text.encode() if isinstance(text, str) else text
    return any(secret.encode() in data for secret in USERS.values())


def check_no_secret(mirror: MirrorProcess, log: bytes, shown: Mapping[str, str]) -> None:
    """Neither what operators are shown nor the mirror's process has a password."""
    assert not has_secret(log)
    assert not has_secret(mirror.scraped())
    assert not has_secret(repr(mirror.client.flows()))
    assert not has_secret(Path(f"/proc/{mirror.process.pid}/cmdline").read_bytes())
    assert not [name for name, text in shown.items() if has_secret(text)]


def shown_by(mirror: MirrorProcess) -> dict[str, str]:
    """Return the output of each command about the mirror."""
    commands = {
        "status": ["status"],
        "watch": ["watch", "-n", "1", "-o", "jsonl"],
        "failover": ["failover", "east->west", "--dry-run"],
        "verify": ["verify", "east->west"],
    }
    return {
        name: str(
            subprocess.run(
                [sys.executable, "-m", "ottla", "mirror", *arguments, "--mirror", mirror.address],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        )
        for name, arguments in commands.items()
    }


@DIFFERS.cell
def test_a_source_with_tls_and_a_login_is_copied(kafka: SecuredKafka, ours: Cluster, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(USERS["alice"])
    source = kafka.settings("SASL_SSL", "SCRAM-SHA-512", file=str(password))
    east, west, topic = Side("east", kafka.server.bootstrap), Side("west", ours.bootstrap), "from-kafka"
    east.create(topic)
    for partition in range(PARTITIONS):
        east.write(topic, partition, range(RECORDS))
    east.read_in_group("readers", topic, RECORDS)
    with MirrorProcess(tmp_path, source, west.bootstrap, topic, delivery="exactly_once", environment=DEBUG) as mirror:
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        east.write(topic, 0, range(1000, 1000 + RECORDS))
        wait_until(lambda: west.read(copy) == east.read(topic))
        wait_until(lambda: west.committed("readers"))
        wait_until(lambda: {p.lag for p in mirror.flow().partitions} == {0})
        with pytest.raises(ottla.FatalError, match="expects TLS"):
            mirror.client.verify("east->west")
        checks = mirror.client.verify("east->west", source=source)
        assert [check.is_good for check in checks] == [True] * PARTITIONS
        assert mirror.flow().trouble == ""
        check_no_secret(mirror, mirror.log.read_bytes(), shown_by(mirror))
        mirror.terminate()
    files = [file for file in ours.brokers[0].data_dir.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if has_secret(file.read_bytes())], "the target has what the mirror keeps there"


@DIFFERS.cell
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_target_with_a_login_is_copied_to(kafka: SecuredKafka, ours: Cluster, tmp_path: Path, delivery: str) -> None:
    target = kafka.settings("SASL_PLAINTEXT", "PLAIN", env="WEST_PASSWORD")
    east, west, topic = Side("east", ours.bootstrap), Side("west", kafka.server.bootstrap), f"to-kafka-{delivery}"
    east.create(topic)
    environment = DEBUG | {"WEST_PASSWORD": USERS["alice"]}
    with MirrorProcess(tmp_path, east.bootstrap, target, topic, delivery=delivery, environment=environment) as mirror:
        copy = f"east.{topic}"
        for n in range(4):  # for longer than a login is valid
            east.write(topic, 0, range(1000 * n, 1000 * n + RECORDS))
            wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        mirror.kill()
        east.write(topic, 1, range(RECORDS))
        mirror.start()
        wait_until(lambda: west.read(copy) == east.read(topic))
        assert mirror.flow().trouble == ""
        check_no_secret(mirror, mirror.log.read_bytes(), shown_by(mirror))
        mirror.terminate()


@DIFFERS.cell
def test_a_rejected_login_is_in_the_status_without_the_password(
    kafka: SecuredKafka, ours: Cluster, tmp_path: Path
) -> None:
    source = kafka.settings("SASL_SSL", "PLAIN", env="EAST_PASSWORD")
    environment = DEBUG | {"EAST_PASSWORD": USERS["eve"]}
    with MirrorProcess(tmp_path, source, ours.bootstrap, "orders", environment=environment) as mirror:
        wait_until(lambda: "the broker rejected the login by PLAIN" in "".join(mirror.flow().troubles()))
        check_no_secret(mirror, mirror.log.read_bytes(), shown_by(mirror))


@DIFFERS.cell
@pytest.mark.parametrize("source", ["Kafka", "ottla"])
def test_acls_are_copied_from_kafka_and_to_kafka(kafka: SecuredKafka, tmp_path: Path, source: str) -> None:
    topic, login = f"guarded-in-{source}", ottla.Scram("alice", USERS["alice"], "SCRAM-SHA-256")
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text(USERS["alice"])
    of_kafka = kafka.settings("SASL_PLAINTEXT", "SCRAM-SHA-256", file=str(password))
    with (
        secured_cluster(tmp_path / "ottla") as (ours, security),
        ottla.Admin(kafka.server.bootstrap_of("SASL_PLAINTEXT"), login=login) as at_kafka,
        ottla.Admin(**security.arguments(ours.bootstrap)) as at_ours,
    ):
        of_ours = security.with_a_file(ours.bootstrap)
        east, west = (at_kafka, at_ours) if source == "Kafka" else (at_ours, at_kafka)
        files = (of_kafka, of_ours) if source == "Kafka" else (of_ours, of_kafka)
        east.topics.create(topic, partitions=1)
        here = Resource.topic(topic)
        east.acls.create(
            Acl.allow("User:bob", "all", here, host="127.0.0.1"),
            Acl.allow("User:carol", "write", here),
            Acl.allow("User:carol", "describe", here),
            Acl.deny("User:dan", "all", here),
            Acl.allow("User:dan", "read", Resource.topic(topic, prefixed=True)),
            Acl.allow("User:dan", "read", Resource.topic("*")),
        )
        there = Resource.topic(f"east.{topic}")
        copied = {
            Acl.allow("User:bob", "read", there, host="127.0.0.1"),
            Acl.allow("User:carol", "describe", there),
            Acl.deny("User:dan", "all", there),
        }
        with MirrorProcess(tmp_path, *files, topic, sync_acls=True) as mirror:
            wait_until(lambda: set(west.acls.list(AclFilter("topic", there.name))) == copied)
            assert mirror.flow().trouble == ""
        found = {acl for name in ("bob", "carol", "dan") for acl in west.acls.list(AclFilter(principal=f"User:{name}"))}
        assert {acl for acl in found if acl.resource.name.startswith("east.")} == copied
