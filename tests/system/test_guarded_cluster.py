"""A cluster of processes whose edges are guarded: etcd with TLS, a user and a role for one prefix; admin ports with a
token; listeners that expect a login. Secrets are planted in all of them, and looked for wherever anyone could see them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from secured_etcd import PASSWORD, SecuredEtcd, secured_etcd
from users import PASSWORDS, Users
from waiting import LIMIT_S, wait_until

import ottla
from ottla_core.host_port import HostPort
from ottla_core.security.scram import MECHANISMS
from ottla_stack.plan import ServicePlan, StackPlan
from ottla_stack.ports import free_port_base
from ottla_stack.supervisor import not_ready

CLUSTER = "guarded"
PREFIX = f"/ottla/{CLUSTER}/"
TOKEN = "planted-token-of-the-admin-ports"
REDIS_PASSWORD, WRONG_PASSWORD, NEW_PASSWORD = "planted-redis-1", "planted-wrong-2", "planted-new-3"
MIRROR = """
redis = "redis://mirror:{redis}@127.0.0.1:1/0"
[clusters.east]
"bootstrap.servers" = "127.0.0.1:{port}"
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "bob"
"sasl.password" = "{password}"
[clusters.west]
"bootstrap.servers" = "127.0.0.1:1"
[[flows]]
source = "east"
target = "west"
topics = ["orders"]
"""


@dataclass
class Guarded:
    """The processes, their logs and what they are to keep for themselves."""

    folder: Path
    plan: StackPlan
    etcd: SecuredEtcd
    token_file: Path
    secrets: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def login(self) -> ottla.Scram:
        return ottla.Scram("alice", PASSWORDS["alice"])

    def settings(self, service: ServicePlan) -> list[str]:
        security = self.etcd.by_password()
        settings: dict[str, object] = {"admin-token-file": self.token_file, "log-level": "DEBUG"}
        if not service.name.startswith("mirror"):
            settings |= {
                "etcd": self.etcd.endpoint,
                "etcd-tls-ca": security.ca,
                "etcd-tls-certificate": security.certificate,
                "etcd-tls-key": security.key,
                "etcd-user": security.user,
                "etcd-password-file": security.password_file,
            }
        if service.kafka_port:
            settings |= {
                "kafka-listener-protocols": "PLAINTEXT:SASL_PLAINTEXT",
                "sasl-enabled-mechanisms": ",".join((*MECHANISMS, "PLAIN")),
                "sasl-plain-without-tls": True,
                "sasl-credentials-file": self.folder / "users.toml",
                "connection-failed-authentication-delay-ms": 0,
            }
        return [f"--{name}={value}" for name, value in settings.items()]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self) -> None:
        for service in self.plan.services():
            with self.log(service.name).open("wb") as log:
                self.processes[service.name] = subprocess.Popen(
                    [*service.command, *self.settings(service)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            wait_until(lambda service=service: self._is_ready(service))

    def _is_ready(self, service: ServicePlan) -> bool:
        assert self.processes[service.name].poll() is None, self.log(service.name).read_text()
        return not_ready(HostPort(self.plan.host, service.admin_port)) is None

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(LIMIT_S)
            finally:
                process.kill()

    def seen(self) -> Iterator[tuple[str, str]]:
        """Yield what others can see of the processes: their logs, admin pages, command lines and environments."""
        for service in self.plan.services():
            name, process = service.name, self.processes[service.name]
            yield f"the log of {name}", self.log(name).read_text(errors="replace")
            for path in ("/metrics", "/healthz", "/readyz", "/config", "/"):
                for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
                    yield f"{path} of {name}", page(service.admin_port, path, headers)
            for file in ("cmdline", "environ"):
                with suppress(OSError):
                    yield f"the {file} of {name}", Path(f"/proc/{process.pid}/{file}").read_text(errors="replace")


def page(port: int, path: str, headers: dict[str, str]) -> str:
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=headers), timeout=10) as response:
            return f"{response.headers}{response.read().decode()}"
    except HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode()}"


def body_of(pem: Path) -> str:
    """The first line of a private key."""
    return pem.read_text().splitlines()[1]


@contextmanager
def guarded_cluster(folder: Path) -> Iterator[Guarded]:
    with secured_etcd(folder / "etcd", PREFIX) as etcd:
        users, mirror, token = Users(), folder / "mirror.toml", folder / "token"
        users.write(folder / "users.toml")
        plan = StackPlan(
            folder,
            free_port_base(),
            CLUSTER,
            brokers=1,
            group_coordinators=1,
            txn_coordinators=1,
            mirror=mirror,
        )
        (kafka_port,) = (service.kafka_port for service in plan.services() if service.kafka_port)
        for path, text in [
            (mirror, MIRROR.format(redis=REDIS_PASSWORD, port=kafka_port, password=PASSWORDS["bob"])),
            (token, TOKEN),
        ]:
            path.touch(0o600)
            path.write_text(text)
        credentials = [credential.text() for credential in users.credentials.values()]
        secrets = {
            "etcd's password": PASSWORD,
            "the key for etcd": body_of(Path(etcd.by_password().key)),
            "the admin token": TOKEN,
            "alice's password": PASSWORDS["alice"],
            "bob's password": PASSWORDS["bob"],
            "a wrong password": WRONG_PASSWORD,
            "a new password": NEW_PASSWORD,
            "Redis' password": REDIS_PASSWORD,
            **{f"stored key {n}": found for n, text in enumerate(credentials) for found in keys_of(text)},
        }
        guarded = Guarded(folder, plan, etcd, token, secrets)
        try:
            guarded.start()
            yield guarded
        finally:
            guarded.stop()


def keys_of(credential: str) -> Iterable[str]:
    return re.findall(r"(?:stored_key|server_key)=([^,]+)", credential)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


def use(guarded: Guarded) -> None:
    """Do what touches each kind of key in etcd: topics, configs, users, groups, transactions."""
    bootstrap, login = guarded.plan.bootstrap, guarded.login
    with ottla.Admin(bootstrap, login=login) as admin:
        admin.topics.create("orders", partitions=2)
        admin.configs.set({"retention.ms": 3_600_000}, topic="orders")
    with (
        ottla.Producer(bootstrap, topic="orders", login=login, value="bytes", transactional_id="t") as producer,
        producer.transaction(),
    ):
        producer.send(b"v")
    with ottla.Consumer(
        "orders", group="g", auto_offset_reset="earliest", stop="end", bootstrap=bootstrap, login=login, value="bytes"
    ) as consumer:
        assert [record.value for record in consumer] == [b"v"]
    kafka = AdminClient(of_librdkafka(guarded, PASSWORDS["alice"]))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    new = UserScramCredentialUpsertion("carol", info, NEW_PASSWORD.encode())
    kafka.alter_user_scram_credentials([new])["carol"].result(LIMIT_S)


def of_librdkafka(guarded: Guarded, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return {
        "bootstrap.servers": guarded.plan.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def test_a_role_for_the_prefix_of_the_cluster_is_all_that_services_need(guarded: Guarded) -> None:
    use(guarded)
    found = set(guarded.etcd.ctl("get", "/", "--prefix", "--keys-only").split())
    expected = ("controller", "brokers/0", "topics/orders", "seq", "scram/SCRAM-SHA-256/carol", "producer-ids")
    assert {f"{PREFIX}{key}" for key in expected} <= found
    assert all(key.startswith(PREFIX) for key in found)
    for name in guarded.processes:
        assert "can't be used" not in guarded.log(name).read_text(), name


def test_secrets_are_seen_nowhere(guarded: Guarded) -> None:
    for mechanism in ("SCRAM-SHA-512", "PLAIN"):
        kafka = AdminClient(of_librdkafka(guarded, WRONG_PASSWORD, mechanism))
        with pytest.raises(KafkaException):
            kafka.list_topics(timeout=2)
    wait_until(lambda: "the password of user 'alice' is wrong" in guarded.log("broker-0").read_text())
    wait_until(lambda: "127.0.0.1:1" in guarded.log("mirror-0").read_text())
    for command in (("config", "get"), ("config", "get", "--broker", "0"), ("doctor",)):
        text = ottla_command(guarded, *command)
        assert "127.0.0.1" in text or "default.replication.factor" in text, text
        assert_unseen(guarded, f"ottla {' '.join(command)}", text)
    with ottla.Admin(guarded.plan.bootstrap, login=guarded.login) as admin:
        for configs in (admin.configs.get(), admin.configs.get(broker=0)):
            assert_unseen(guarded, "DescribeConfigs", repr(configs))
    seen = 0
    for place, text in guarded.seen():
        assert_unseen(guarded, place, text)
        seen += 1
    assert seen == len(guarded.processes) * 13


def ottla_command(guarded: Guarded, *arguments: str) -> str:
    """Run the command line, which takes the password from its profile."""
    profile = guarded.folder / "config.toml"
    profile.touch(0o600)
    profile.write_text(
        f"""[profiles.guarded]
"bootstrap.servers" = "{guarded.plan.bootstrap}"
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "alice"
"sasl.password" = "{PASSWORDS["alice"]}"
"""
    )
    environment = {**os.environ, "OTTLA_CONFIG": str(profile), "OTTLA_PROFILE": "guarded", "OTTLA_DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=environment,
    )
    return done.stdout + done.stderr


def assert_unseen(guarded: Guarded, place: str, text: str) -> None:
    found = [name for name, secret in guarded.secrets.items() if secret in text]
    assert not found, f"{place} shows {', '.join(found)}"


BROKEN: dict[str, tuple[str, str]] = {
    "a password beside others": ("etcd-password-file", f"{PASSWORD}\n{PASSWORD}\n\x00"),
    "a password that is wrong": ("etcd-password-file", WRONG_PASSWORD),
    "a password that is not UTF-8": ("etcd-password-file", f"{PASSWORD}\udcff"),
    "a token with a space": ("admin-token-file", f"{TOKEN} {TOKEN}"),
    "credentials that are not TOML": ("sasl-credentials-file", f"alice = {PASSWORDS['alice']}"),
    "credentials with a password": ("sasl-credentials-file", f'[alice]\nSCRAM-SHA-256 = "{PASSWORDS["alice"]}"'),
    "a key that is broken": ("etcd-tls-key", f"-----BEGIN PRIVATE KEY-----\n{PASSWORD}\n-----END PRIVATE KEY-----\n"),
}


@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_secret_is_not_repeated_in_the_refusal(guarded: Guarded, tmp_path: Path, which: str) -> None:
    setting, text = BROKEN[which]
    file = tmp_path / "broken"
    file.touch(0o600)
    file.write_bytes(text.encode(errors="surrogateescape"))
    (broker,) = (service for service in guarded.plan.services() if service.kafka_port)
    places = [f"--data-dir={tmp_path}", "--node-id=7", "--port=0", "--admin-port=0", "--kafka-port=0"]
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*broker.command, *guarded.settings(broker), *places, f"--{setting}={file}"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        wait_until(lambda: str(file) in log.read_text())
    finally:
        process.kill()
        process.wait(LIMIT_S)
    assert "Traceback" not in log.read_text()
    assert_unseen(guarded, "the log", log.read_text())
