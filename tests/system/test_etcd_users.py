"""The users that a secured stack has in etcd: what they may use, and that a second run leaves them alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from certificates import Authority
from etcd_refused import refused

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.errors import OttlaError
from ottla_stack import etcd_users
from ottla_stack.embedded_etcd import EmbeddedEtcd, EtcdTls, plan_etcd
from ottla_stack.etcd_roles import ROOT, Wanted
from ottla_stack.etcd_users import NAMES, main, make_users

CLUSTER, ANOTHER = "/ottla/ottla/", "/ottla/another/"
SERVICES = ("broker-0", "controller-0")
OTHER = "etcd"
WANTED = Wanted(CLUSTER, SERVICES, [OTHER])


@dataclass(frozen=True)
class Etcd:
    """An etcd that trusts the certificates of `authority` alone, and has no users yet."""

    address: str
    authority: Authority

    def as_user(self, name: str) -> EtcdSecurity:
        issued = self.authority.issue(name, "DNS:client")
        issued.key.chmod(0o600)
        return EtcdSecurity(self.authority.certificate, issued.certificate, issued.key)

    def make(self, wanted: Wanted = WANTED) -> int:
        return make_users(self.address, self.as_user(ROOT), wanted)

    async def refused(self, security: EtcdSecurity, prefix: str) -> list[str]:
        return await refused(self.address, security, prefix)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("etcd", "IP:127.0.0.1")
    plan = plan_etcd(tmp_path / "etcd", tls=EtcdTls(server.certificate, server.key, authority.certificate))
    running = EmbeddedEtcd(plan)
    running.start()
    try:
        yield Etcd(plan.endpoint, authority)
    finally:
        running.stop()


async def test_a_service_uses_the_keys_of_its_cluster_and_no_other_key(etcd: Etcd) -> None:
    await asyncio.to_thread(etcd.make)
    for name in SERVICES:
        own = etcd.as_user(name)
        assert await etcd.refused(own, CLUSTER) == []
        for prefix in (ANOTHER, "/ottla/", "/", "/ottla/ottla0"):
            assert await etcd.refused(own, prefix) == ["read", "write"], prefix


@pytest.mark.parametrize("name", [OTHER, "nobody"])
async def test_another_certificate_of_the_same_authority_opens_no_key(etcd: Etcd, name: str) -> None:
    await asyncio.to_thread(etcd.make)
    for prefix in (CLUSTER, ANOTHER):
        assert await etcd.refused(etcd.as_user(name), prefix) == ["read", "write"]


async def test_without_a_certificate_nobody_connects(etcd: Etcd) -> None:
    await asyncio.to_thread(etcd.make)
    assert await etcd.refused(EtcdSecurity(etcd.authority.certificate), CLUSTER) == ["read", "write"]


def test_a_second_run_changes_nothing(etcd: Etcd) -> None:
    assert etcd.make() > 0
    assert etcd.make() == 0


async def test_another_cluster_s_name_moves_the_role_and_a_service_that_is_gone_loses_it(etcd: Etcd) -> None:
    await asyncio.to_thread(etcd.make)
    await asyncio.to_thread(etcd.make, Wanted(ANOTHER, SERVICES[:1], [OTHER]))
    assert await etcd.refused(etcd.as_user(SERVICES[0]), CLUSTER) == ["read", "write"]
    assert await etcd.refused(etcd.as_user(SERVICES[0]), ANOTHER) == []
    assert await etcd.refused(etcd.as_user(SERVICES[1]), ANOTHER) == ["read", "write"]


def test_a_service_can_not_make_users(etcd: Etcd) -> None:
    etcd.make()
    with pytest.raises(OttlaError, match="RoleList: etcdserver: permission denied") as caught:
        make_users(etcd.address, etcd.as_user(SERVICES[0]), Wanted("/", SERVICES))
    assert "certificate names root" in caught.value.hint


async def test_the_command_in_a_container_makes_the_users_that_its_file_names(
    etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = etcd.as_user(ROOT)
    for file, name in ((root.ca, "etcd-ca.pem"), (root.certificate, "etcd-client.pem"), (root.key, "etcd-client.key")):
        shutil.copy(file, tmp_path / name)
    monkeypatch.setattr(etcd_users, "_KEYS", tmp_path)
    command = [etcd.address, "ottla"]
    assert await asyncio.to_thread(main, command) == 1
    assert "run this in the container `etcd-users`" in capsys.readouterr().err
    (tmp_path / NAMES).write_text("broker-0\n")
    assert await asyncio.to_thread(main, command) == 0
    assert f"limited to the keys under {CLUSTER}" in capsys.readouterr().out
    assert await etcd.refused(etcd.as_user("broker-0"), CLUSTER) == []
    assert await etcd.refused(etcd.as_user("controller-0"), CLUSTER) == ["read", "write"]


def test_the_command_without_an_address_and_one_without_tls_say_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(etcd_users, "_KEYS", tmp_path)
    (tmp_path / NAMES).write_text("broker-0\n")
    assert main([]) == 2
    assert "usage: " in capsys.readouterr().err
    assert main(["etcd:2379", "ottla"]) == 1
    assert "write https://host:port" in capsys.readouterr().err
