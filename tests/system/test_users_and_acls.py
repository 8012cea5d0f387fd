"""`Admin.users` and `Admin.acls` at brokers whose clients log in: what they set counts for logins and requests."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from guarded_settings import guarded_settings
from tests.fuzz.stack import Stack
from tests.walk.pages import programs, promised, text
from users import PASSWORDS
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
    settings = guarded_settings(folder, "User:alice;User:root", passwords={"alice": PASSWORDS["alice"]})
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


def test_a_user_who_may_not_alter_the_cluster_is_told_so(clean: ottla.Admin, address: str) -> None:
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


def test_users_and_acls_are_managed_with_asyncio(clean: ottla.Admin, address: str) -> None:
    async def use() -> list[Acl]:
        login = ottla.Scram("alice", PASSWORDS["alice"], "SCRAM-SHA-256")
        async with ottla.aio.Admin(address, login=login) as admin:
            await admin.acls.create(READS)
            await admin.users.set_password("carol", "first-secret")
            assert [user.name for user in await admin.users.list()] == ["carol"]
            return await admin.acls.list()

    assert asyncio.run(use()) == [READS]


def test_the_program_of_the_page_prints_what_it_says(
    clean: ottla.Admin, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = programs(text("docs/use/users-and-acls.md"))
    login = ottla.Scram("alice", PASSWORDS["alice"], "SCRAM-SHA-256")
    monkeypatch.setattr(ottla, "Admin", partial(ottla.Admin, address, login=login))
    exec(program, {})  # the page is ours
    assert capsys.readouterr().out.splitlines() == promised(program)
    assert (clean.users.list(), [str(acl) for acl in clean.acls.list()]) == (
        [],
        ["everyone may not do everything with topic salaries"],
    )


# ---- the command line ------------------------------------------------------------------------------------------------
class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def items(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Shell = Callable[..., Ran]


@pytest.fixture
def shell(clean: ottla.Admin, address: str, tmp_path: Path) -> Shell:
    """Runs `ottla` as alice in a process, and checks that it prints no password."""
    file = tmp_path / "config.toml"
    file.write_text(
        f"""
        [profiles.guarded]
        bootstrap.servers = "{address}"
        security.protocol = "SASL_PLAINTEXT"
        sasl.mechanism = "SCRAM-SHA-256"
        sasl.username = "alice"
        sasl.password.env = "ALICES"
        """
    )
    environment = {**os.environ, "OTTLA_CONFIG": str(file), "OTTLA_PROFILE": "guarded"}
    environment |= {"ALICES": PASSWORDS["alice"], "CAROLS": "carols-secret"}

    def run(line: str, given: str = "") -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *shlex.split(line)],
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert "secret" not in done.stdout + done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def test_users_from_the_command_line(shell: Shell, address: str, tmp_path: Path) -> None:
    added = shell("user add carol --password-stdin -o json", "first-secret\n")
    assert (added.code, json.loads(added.out)["items"][0]["action"]) == (0, "added")
    assert can_log_in(address, "first-secret", "SCRAM-SHA-512")
    assert shell("user ls").items == [
        {"name": "carol", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"], "iterations": [4096]}
    ]
    again = shell("user add carol --password-stdin", "first-secret")
    assert (again.code, "already exists; change the password with `ottla user passwd carol`" in again.err) == (2, True)
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text("second-secret\n")
    assert "keeps the old password" in shell(f"user passwd carol --mechanism sha-256 --password-file {file}").err
    assert shell(f"user passwd carol --iterations 8192 --password-file {file}").code == 0
    assert can_log_in(address, "second-secret", "SCRAM-SHA-256")
    assert not can_log_in(address, "first-secret", "SCRAM-SHA-512")
    unasked = shell("user rm carol")
    assert (unasked.code, "can't prompt without a terminal" in unasked.err) == (2, True)
    assert [item["action"] for item in shell("user rm carol --dry-run -o jsonl").items] == ["none"]
    assert can_log_in(address, "second-secret", "SCRAM-SHA-256")
    assert shell("user rm carol --yes").err.splitlines()[-1] == "removed carol"
    missing = shell("user rm carol --yes")
    assert (missing.code, "there is no user 'carol'" in missing.err) == (4, True)
    assert shell("user passwd carol --password-stdin", "secret").code == 4


def test_a_password_is_typed_twice_and_not_shown(shell: Shell, address: str) -> None:
    """`shell` has set up the cluster only: a prompt needs a terminal."""
    assert "can't prompt for a password without a terminal" in shell("user add carol").err
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "ALICES": PASSWORDS["alice"], "OTTLA_PROFILE": ""}
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice"}
        options = [word for name, value in login.items() for word in ("-X", f"{name}={value}")]
        command = [sys.executable, "-m", "ottla", "-b", address, *options, "-X", "sasl.password.env=ALICES"]
        os.execvpe(sys.executable, [*command, "user", "add", "carol"], environment)
    shown = b""
    # The test's process may have more than 1,024 files open, with which select() can't wait.
    output = select.poll()
    output.register(terminal, select.POLLIN)
    for expected, typed in (
        (b"carol: ", b"typed-secret\n"),
        (b"Repeat the password: ", b"typed-secret\n"),
        (b"added carol", b""),
    ):
        while expected not in shown:
            assert output.poll(LIMIT_S * 1_000), shown
            shown += os.read(terminal, 1024)
        os.write(terminal, typed)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)
    assert b"typed-secret" not in shown
    assert can_log_in(address, "typed-secret", "SCRAM-SHA-256")


def test_acls_from_the_command_line(shell: Shell, clean: ottla.Admin) -> None:
    assert shell("acl add carol consume topic:orders group:billing").code == 0
    assert shell("acl add carol write topic:orders- --prefixed --host 10.0.0.0/8").code == 0
    assert shell("acl add '*' all topic:salaries --deny").code == 0
    assert set(clean.acls.list()) == {
        Acl.allow("User:carol", "read", Resource.topic("orders")),
        Acl.allow("User:carol", "describe", Resource.topic("orders")),
        Acl.allow("User:carol", "read", Resource.group("billing")),
        Acl.allow("User:carol", "write", Resource.topic("orders-", prefixed=True), host="10.0.0.0/8"),
        Acl.deny("User:*", "all", Resource.topic("salaries")),
    }
    assert shell("acl add carol read topic:orders -o json").err == "exists already: User:carol may read topic orders\n"
    assert len(shell("acl ls --principal carol").items) == 4
    assert [item["operation"] for item in shell("acl ls --resource topic:orders-eu --matching").items] == ["write"]
    assert shell("acl ls --resource topic:orders --operation read -o name").out == "User:carol may read topic orders\n"
    assert [item["resource"] for item in shell("acl ls --deny").items] == ["salaries"]
    assert shell("acl rm").code == 2
    removed = shell("acl rm --principal carol --resource topic:orders --yes")
    assert removed.err.splitlines() == [
        "User:carol may read topic orders",
        "User:carol may describe topic orders",
        "removed 2 ACLs",
    ]
    assert len(clean.acls.list()) == 3
    assert shell("acl rm --all --yes").code == 0
    assert clean.acls.list() == []


def test_the_command_line_names_the_acl_that_decides(shell: Shell, clean: ottla.Admin) -> None:
    clean.acls.create(WRITES, READS, Acl.deny("User:*", "alter", Resource.topic("*")))
    for line, code, sentence in [
        (
            "carol write topic:orders-eu",
            0,
            "yes, by the ACL: User:carol may write every topic that begins with orders-",
        ),
        ("carol describe topic:orders-us", 0, "orders-; write includes describe"),
        ("carol alter topic:orders-us", 1, "no, by the ACL: everyone may not alter every topic"),
        ("alice alter topic:orders-us", 0, "yes, because the user is a super user"),
        ("carol read topic:orders-eu", 1, "no, because no ACL allows it"),
        ("carol read topic:orders-eu --host 127.0.0.1", 0, "may read topic orders-eu from 127.0.0.0/8"),
        ("carol read group:g", 1, "because no ACL is for the resource, and allow.everyone.if.no.acl.found is false"),
    ]:
        ran = shell(f"acl test {line} -o table")
        assert (ran.code, sentence in ran.out) == (code, True), ran
    ran = shell("acl test carol read topic:orders-eu")
    assert ran.err == "there are ACLs for clients at 127.0.0.0/8; test one with --host\n"
    (item,) = shell("acl test carol write topic:orders-eu").items
    assert (item["allowed"], item["decided_by"], item["acl"]["pattern"]) == (True, "acl", "prefixed")


def test_a_change_that_locks_its_author_out_is_warned_of(shell: Shell, clean: ottla.Admin) -> None:
    clean.users.set_password("root", "roots-secret")
    told = shell("user rm root --dry-run").err
    assert "warning: root is a super user" in told
    assert "warning: after that the cluster keeps no password of a super user" in told
    clean.users.set_password("carol", "carols-secret")
    clean.acls.create(
        Acl.allow("User:carol", "alter", Resource.cluster()),
        Acl.allow("User:carol", "describe_configs", Resource.cluster()),
    )
    carol = "-X sasl.username=carol -X sasl.password.env=CAROLS"
    for change in ("rm --resource cluster --operation alter --dry-run", "add '*' all cluster --deny --dry-run"):
        told = shell(f"{carol} acl {change}").err
        assert "warning: after that you, User:carol, can't change users and ACLs any more" in told, told
    unasked = shell(f"{carol} acl add '*' all cluster --deny")
    assert (unasked.code, "confirm with --yes" in unasked.err) == (2, True)
    assert "warning" not in shell(f"{carol} acl rm --resource cluster --operation describe-configs --dry-run").err
