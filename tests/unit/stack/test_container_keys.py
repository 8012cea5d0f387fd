"""What `certificates` of docker-compose.secure.yml hands out, and to whom."""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla.client.security.profiles import load_profile
from ottla_core.errors import OttlaError
from ottla_core.rpc.internal_tls import Files, InternalTls
from ottla_core.security.service_identity import Role
from ottla_stack import container_keys
from ottla_stack.ca.directory import AUTHORITY_LIFETIME, CaDirectory
from ottla_stack.ca.subject import subject_of
from ottla_stack.container_keys import ARCHIVE, ContainerKeys, main, rotate, write_archive
from ottla_stack.secure_files import SecureFiles

SERVICES = ("controller-0", "broker-0", "broker-1", "group-coordinator-0", "txn-coordinator-0")
OTHERS = ("etcd", "etcd-users", "client", "load", "spark", "prometheus", "redis")
INSIDE, OUTSIDE = "broker-0:19092,broker-1:19092", "localhost:9092,streams.example.org:9093"
OF_A_SERVICE = {
    *("ca.pem", "service.key", "service.pem", "etcd-ca.pem", "etcd-client.key", "etcd-client.pem", "admin.token"),
}
FILES = {
    **dict.fromkeys(SERVICES, OF_A_SERVICE),
    **dict.fromkeys(("broker-0", "broker-1"), OF_A_SERVICE | {"listener.keystore.pem", "users.toml"}),
    "etcd": {"etcd-ca.pem", "etcd.key", "etcd.pem", "etcd-client.key", "etcd-client.pem"},
    "etcd-users": {"etcd-ca.pem", "etcd-client.key", "etcd-client.pem", "etcd-users"},
    "client": {"ca.pem", "admin.password", "redis.password", "clients.toml", "kcat.conf"},
    "load": {"ca.pem", "load.password", "clients.toml"},
    "spark": {"ca.pem", "spark.password", "clients.toml", "spark.conf"},
    "prometheus": {"admin.token"},
    "redis": {"redis.conf"},
}


@pytest.fixture
def keys(tmp_path: Path) -> ContainerKeys:
    handed_out = tmp_path / "run"
    for name in (*SERVICES, *OTHERS):
        (handed_out / name).mkdir(parents=True)
    files = SecureFiles(tmp_path / "security")
    made = ContainerKeys(files, handed_out, INSIDE, OUTSIDE, group_of=lambda name: os.getgid())
    made.make_missing()
    made.hand_out()
    return made


def contents(keys: ContainerKeys) -> dict[str, bytes]:
    paths = sorted(path for path in keys.handed_out.rglob("*") if path.is_file())
    return {str(path.relative_to(keys.handed_out)): path.read_bytes() for path in paths}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name, content in after.items() if before[name] != content}


def hosts(path: Path) -> set[str]:
    subject = subject_of(x509.load_pem_x509_certificates(path.read_bytes())[0])
    assert subject is not None
    return set(subject.hosts)


def test_a_container_gets_what_it_needs_and_no_key_of_another(keys: ContainerKeys) -> None:
    assert {name: set(os.listdir(keys.handed_out / name)) for name in FILES} == FILES
    secret = [c for name, c in contents(keys).items() if name.endswith((".key", ".keystore.pem", ".password"))]
    assert len(set(secret)) == len(secret)
    authorities = {path.read_bytes() for path in keys.files.directory.rglob("ca.key")}
    assert len(authorities) == 2
    assert not authorities & set(contents(keys).values())


def test_only_the_container_s_group_reads_a_file_and_nobody_but_the_owner_writes_it(keys: ContainerKeys) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in keys.handed_out.rglob("*") if path.is_file()}
    assert modes == {0o640}
    assert container_keys.group_of("broker-0") != container_keys.group_of("prometheus")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_who_its_container_is_named_after(keys: ContainerKeys, name: str) -> None:
    own = keys.handed_out / name
    role, _, number = name.rpartition("-")
    tls = InternalTls(Files(own / "service.pem", own / "service.key", own / "ca.pem"), Role(role))
    assert tls.identity == (role, number)
    assert hosts(own / "service.pem") == {name}


def test_clients_in_containers_and_on_the_host_reach_a_listener_by_a_name_that_it_proves(keys: ContainerKeys) -> None:
    for broker in ("broker-0", "broker-1"):
        named = hosts(keys.files.ca / f"listener-{broker}.pem")
        assert {broker, "localhost", "127.0.0.1", "streams.example.org"} <= named
    own = keys.handed_out / "client"
    for profile, bootstrap in (("secure", OUTSIDE), ("inside", INSIDE)):
        config = load_profile(profile, own / "clients.toml").config()
        assert config["bootstrap.servers"] == bootstrap
        assert config["ssl.truststore.location"] == str(own / "ca.pem")
        assert config["sasl.password"].reveal() == keys.files.password.read_text().strip()


@pytest.mark.parametrize("user", ["load", "spark"])
def test_a_client_with_a_container_of_its_own_logs_in_as_its_own_user(keys: ContainerKeys, user: str) -> None:
    config = load_profile("inside", keys.handed_out / user / "clients.toml").config()
    assert (config["sasl.username"], config["bootstrap.servers"]) == (user, INSIDE)
    assert config["sasl.password"].reveal() != keys.files.password.read_text().strip()
    assert config["ssl.truststore.location"] == str(keys.handed_out / user / "ca.pem")


def test_spark_s_processes_share_a_secret_that_nobody_else_has(keys: ContainerKeys) -> None:
    lines = (keys.handed_out / "spark" / "spark.conf").read_text().splitlines()
    settings = dict(line.split(" ", 1) for line in lines)
    secret = settings.pop("spark.authenticate.secret")
    assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.ui.enabled"] == "false", "the web page of a job would be open"
    assert [name for name, content in contents(keys).items() if secret.encode() in content] == ["spark/spark.conf"]


def test_each_service_is_a_user_of_etcd_and_only_one_container_is_root(keys: ContainerKeys) -> None:
    names = {
        path.parent.name: x509.load_pem_x509_certificates(path.read_bytes())[0]
        .subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0]
        .value
        for path in keys.handed_out.rglob("etcd-client.pem")
    }
    assert names == {"etcd": "etcd", "etcd-users": "root", **{name: name for name in SERVICES}}
    assert (keys.handed_out / "etcd-users" / "etcd-users").read_text().split() == sorted(SERVICES)


def test_nothing_changes_in_a_second_run(keys: ContainerKeys) -> None:
    before = {path: path.stat().st_mtime_ns for path in keys.handed_out.rglob("*")}
    keys.make_missing()
    keys.hand_out()
    assert {path: path.stat().st_mtime_ns for path in keys.handed_out.rglob("*")} == before


def test_a_rotation_replaces_every_certificate_and_leaves_the_users_and_the_token(keys: ContainerKeys) -> None:
    before = contents(keys)
    assert rotate(keys, ["--within", "400d"]) == 0
    keys.hand_out()
    replaced = {name for name in before if name.endswith((".key", ".pem")) and not name.endswith("ca.pem")}
    assert changed(before, contents(keys)) == replaced


def test_a_rotation_that_fails_says_so_by_its_exit_code(keys: ContainerKeys) -> None:
    before = contents(keys)
    assert rotate(keys, ["no-such-certificate"]) != 0
    keys.hand_out()
    assert contents(keys) == before


def test_other_addresses_of_clients_cost_the_listeners_new_certificates_and_nobody_else(keys: ContainerKeys) -> None:
    before = contents(keys)
    moved = replace(keys, outside="10.1.2.3:9092")
    moved.make_missing()
    moved.hand_out()
    expected = {"client/clients.toml", "client/kcat.conf"}
    assert changed(before, contents(keys)) == expected | {f"broker-{n}/listener.keystore.pem" for n in (0, 1)}
    named = hosts(keys.files.ca / "listener-broker-0.pem")
    assert named == {"broker-0", "10.1.2.3", "localhost", "127.0.0.1", "::1"}


def test_a_certificate_that_ends_soon_is_issued_again_and_one_of_a_former_authority_is_not(keys: ContainerKeys) -> None:
    place = CaDirectory(keys.files.ca)
    place.rotate(timedelta(days=29), timedelta(), ["broker-1"])
    place.replace_authority(AUTHORITY_LIFETIME)
    keys.hand_out()
    before = contents(keys)
    keys.make_missing()
    keys.hand_out()
    assert changed(before, contents(keys)) == {"broker-1/service.key", "broker-1/service.pem"}


@pytest.mark.parametrize("name", ["mirror-0", "admin-0", "broker", "lost+found"])
def test_a_directory_that_is_named_after_no_container_is_an_error(keys: ContainerKeys, name: str) -> None:
    (keys.handed_out / name).mkdir()
    with pytest.raises(OttlaError, match="is no container that gets keys"):
        keys.make_missing()


@pytest.fixture
def in_container(keys: ContainerKeys, monkeypatch: pytest.MonkeyPatch) -> ContainerKeys:
    """Let the command find the directories and the settings of its container."""
    monkeypatch.setattr(container_keys, "_DIRECTORY", keys.files.directory)
    monkeypatch.setattr(container_keys, "_HANDED_OUT", keys.handed_out)
    monkeypatch.setenv("BOOTSTRAP_INSIDE", INSIDE)
    monkeypatch.setenv("BOOTSTRAP_OUTSIDE", OUTSIDE)
    return keys


@pytest.mark.parametrize("addresses", ["", "localhost", "localhost:9092,", "localhost:9092 other:9092", "a'b:1"])
def test_addresses_that_no_client_can_use_are_named(
    in_container: ContainerKeys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], addresses: str
) -> None:
    monkeypatch.setenv("BOOTSTRAP_OUTSIDE", addresses)
    before = contents(in_container)
    assert main([]) == 1
    assert capsys.readouterr().err.startswith(f"ottla: BOOTSTRAP_OUTSIDE is {addresses!r}, which has no address")
    assert contents(in_container) == before


def test_outside_its_container_the_command_says_where_to_run_it(
    in_container: ContainerKeys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(container_keys, "_HANDED_OUT", tmp_path / "nothing")
    assert main([]) == 1
    assert "run this in the container `certificates`" in capsys.readouterr().err


def test_an_unknown_word_changes_nothing(in_container: ContainerKeys, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rotat"]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_the_archive_has_the_client_s_files_for_its_reader_alone(
    keys: ContainerKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", output)
    write_archive(keys.handed_out / "client")
    with tarfile.open(fileobj=io.BytesIO(output.buffer.getvalue())) as archive:
        members = archive.getmembers()
    assert {member.name for member in members} == {ARCHIVE, *(f"{ARCHIVE}/{name}" for name in FILES["client"])}
    assert all(member.mode & 0o077 == 0 and member.uid == member.gid == 0 for member in members)
