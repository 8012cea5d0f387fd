"""`ottla ca`: what it writes, what it refuses, and what a kill in the middle leaves behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ottla.errors import ConfigError
from ottla_cli.main import run
from ottla_core.rpc.internal_tls import Files, InternalTls
from ottla_core.security.service_identity import Role
from ottla_stack.ca.authority import is_signed_by
from ottla_stack.ca.directory import LIFETIME, CaDirectory, read_certificates
from ottla_stack.ca.subject import KINDS, Subject, subject, subject_of

BROKER = Subject(Role.BROKER, "0", ("localhost", "10.0.0.7", "::1"))


@pytest.fixture
def place(tmp_path: Path) -> CaDirectory:
    place = CaDirectory(tmp_path / "ca")
    place.init("test CA", LIFETIME)
    return place


def is_pair(path: Path) -> bool:
    key = load_pem_private_key(path.with_suffix(".key").read_bytes(), password=None)
    return key.public_key() == read_certificates(path)[0].public_key()


def test_keys_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        place = CaDirectory(tmp_path / "ca")
        place.init("test CA", LIFETIME)
        place.issue(BROKER, LIFETIME)
    finally:
        os.umask(umask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [place.path, *place.path.iterdir()]}
    assert modes == {"ca": 0o700, "ca.key": 0o600, "ca.pem": 0o644, "broker-0.key": 0o600, "broker-0.pem": 0o644}


def test_the_common_name_of_a_service_tells_its_role_and_that_of_a_client_is_the_user(place: CaDirectory) -> None:
    names = {
        whom: read_certificates(place.issue(whom, LIFETIME))[0].subject.rfc4514_string()
        for whom in (BROKER, subject("client", "alice"), subject("group-coordinator", "x" * 64))
    }
    assert list(names.values()) == ["CN=broker-0", "CN=alice", "CN=group-coordinator-" + "x" * 46]


def test_a_certificate_whose_common_name_is_only_its_name_is_rotated(
    place: CaDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier releases issued such certificates."""
    with monkeypatch.context() as earlier:
        earlier.setattr(Subject, "common_name", property(lambda whom: whom.name))
        path = place.issue(BROKER, LIFETIME)
    assert read_certificates(path)[0].subject.rfc4514_string() == "CN=0"
    place.rotate(LIFETIME, LIFETIME * 2)
    (certificate,) = read_certificates(path)
    assert certificate.subject.rfc4514_string() == "CN=broker-0"
    assert subject_of(certificate) == BROKER


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_read_back_as_it_was_issued_and_good_for_what_it_does(place: CaDirectory, kind: str) -> None:
    hosts = () if kind in ("client", "admin") else ("localhost", "10.0.0.7")
    whom = subject(kind, "x-1", hosts)
    (certificate,) = read_certificates(place.issue(whom, LIFETIME))
    assert subject_of(certificate) == whom
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert place.authority().has_signed(certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    oids = x509.oid.ExtendedKeyUsageOID
    assert (oids.SERVER_AUTH in usage) == bool(hosts)
    assert (oids.CLIENT_AUTH in usage) == (kind != "listener")
    if kind in list(Role):
        assert str(_as_service(place, whom).identity) == f"{kind}/x-1"


def _as_service(place: CaDirectory, whom: Subject) -> InternalTls:
    base = place.path / whom.file_name
    return InternalTls(
        Files(base.with_suffix(".pem"), base.with_suffix(".key"), place.authorities_path), Role(whom.kind)
    )


def test_openssl_accepts_each_certificate(place: CaDirectory) -> None:
    """Another library verifies the chain, the purpose and the host."""
    path = place.issue(BROKER, LIFETIME)
    command = shutil.which("openssl")
    assert command is not None, "this test needs the command openssl: apt-get install openssl"
    for purpose in ("sslserver", "sslclient"):
        arguments = [command, "verify", "-x509_strict", "-CAfile", str(place.authorities_path), "-purpose", purpose]
        done = subprocess.run(
            [*arguments, "-verify_hostname", "localhost", str(path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "name", "hosts"),
    [
        ("gravedigger", "0", ()),
        ("broker", "", ()),
        ("broker", "../0", ()),
        ("broker", "a b", ()),
        ("client", "x" * 65, ()),
        ("broker", "0", ("localhost:9092",)),
        ("broker", "0", ("",)),
        ("broker", "0", ("https://host",)),
        ("client", "alice", ("localhost",)),
        ("admin", "ops", ("localhost",)),
    ],
)
def test_a_subject_that_can_not_be_is_rejected(kind: str, name: str, hosts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as told:
        subject(kind, name, hosts)
    assert told.value.hint


def test_what_is_there_is_not_overwritten(place: CaDirectory) -> None:
    place.issue(BROKER, LIFETIME)
    before = {path.name: path.read_bytes() for path in place.path.iterdir()}
    with pytest.raises(ConfigError, match="there is an authority in"):
        place.init("test CA", LIFETIME)
    with pytest.raises(ConfigError, match="there is a certificate in"):
        place.issue(BROKER, LIFETIME)
    place.issue_missing([BROKER], LIFETIME)
    assert {path.name: path.read_bytes() for path in place.path.iterdir()} == before


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    place = CaDirectory(tmp_path / "ca")
    place.init("test CA", timedelta(days=10))
    (certificate,) = read_certificates(place.issue(BROKER, LIFETIME))
    assert certificate.not_valid_after_utc == place.authorities()[0].not_valid_after_utc


def commands_in(hint: str) -> list[list[str]]:
    """Return the arguments of the commands in a hint, as a shell splits them."""
    return [shlex.split(command)[1:] for command in re.findall("`([^`]+)`", hint)]


def test_commands_in_hints_work_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the path of the authority, and its name is quoted."""
    monkeypatch.chdir(tmp_path)
    place = CaDirectory(Path("it's a ca"))

    def mend(fail: Callable[[], object]) -> None:
        with pytest.raises(ConfigError) as told:
            fail()
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            assert [run(command) for command in commands_in(told.value.hint)] == [0]

    mend(lambda: place.issue(BROKER, LIFETIME))
    mend(lambda: place.init("test CA", LIFETIME))
    place.issue(BROKER, LIFETIME)
    mend(lambda: place.issue(BROKER, LIFETIME))
    mend(lambda: place.rotate(LIFETIME, LIFETIME, ["broker-9"]))
    place.replace_authority(LIFETIME)
    mend(place.retire_authorities)
    place.retire_authorities()


def test_an_expired_authority_says_how_to_get_another_one(tmp_path: Path) -> None:
    place = CaDirectory(tmp_path / "it's a ca")
    place.init("test CA", timedelta(minutes=-1))
    with pytest.raises(ConfigError, match="expired at") as told:
        place.issue(BROKER, LIFETIME)
    for command in commands_in(told.value.hint):
        assert run(command) == 0
    assert is_pair(place.issue(BROKER, LIFETIME))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda place: (place.path / "ca.key").unlink(), "can't be read: No such file"),
        (lambda place: (place.path / "ca.key").write_text("secret"), "is no key that `ottla ca` has written"),
        (lambda place: (place.path / "ca.key").write_bytes(_other_key()), "is the key of no authority in"),
        (lambda place: place.authorities_path.write_text("secret"), "has no certificate in PEM format"),
        (lambda place: shutil.rmtree(place.path), "there is no authority in"),
    ],
)
def test_files_that_are_damaged_are_named(
    place: CaDirectory, spoil: Callable[[CaDirectory], object], said: str
) -> None:
    spoil(place)
    with pytest.raises(ConfigError, match=said) as told:
        place.issue(BROKER, LIFETIME)
    assert told.value.hint
    assert "secret" not in str(told.value)


def _other_key() -> bytes:
    from ottla_stack.ca.authority import pem_of_key

    return pem_of_key(ec.generate_private_key(ec.SECP256R1()))


def test_two_commands_do_not_work_in_one_directory_at_once(place: CaDirectory) -> None:
    with place._locked(), pytest.raises(ConfigError, match="another command is at work"):
        place.issue(BROKER, LIFETIME)
    place.issue(BROKER, LIFETIME)


# ---- rotation --------------------------------------------------------------------------------------------------------


def test_only_what_ends_soon_is_issued_again_with_its_hosts_and_a_new_key(place: CaDirectory) -> None:
    soon = place.issue(BROKER, timedelta(days=20))
    late = place.issue(Subject(Role.BROKER, "1", ("b-1.example",)), timedelta(days=40))
    before, key = late.read_bytes(), soon.with_suffix(".key").read_bytes()
    assert place.rotate(LIFETIME, timedelta(days=30)) == [soon]
    assert late.read_bytes() == before
    assert soon.with_suffix(".key").read_bytes() != key
    (certificate,) = read_certificates(soon)
    assert subject_of(certificate) == BROKER
    assert certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
    assert place.rotate(LIFETIME, timedelta(days=30)) == []
    assert place.rotate(LIFETIME, timedelta(days=30), ["broker-1"]) == [late]
    with pytest.raises(ConfigError, match="no certificate 'broker-2'"):
        place.rotate(LIFETIME, timedelta(days=30), ["broker-1", "broker-2"])


def test_a_new_authority_is_trusted_beside_the_former_one_until_nothing_of_that_is_left(place: CaDirectory) -> None:
    path = place.issue(BROKER, LIFETIME)
    (former,) = place.authorities()
    place.replace_authority(LIFETIME)
    new = place.authority().certificate
    assert place.authorities() == [new, former]
    assert new.subject != former.subject
    assert re.fullmatch(r"CN=test CA [0-9a-f]{8}", new.subject.rfc4514_string())
    with pytest.raises(ConfigError, match=r"a former authority has signed broker-0\.pem"):
        place.retire_authorities()
    assert place.rotate(LIFETIME, timedelta(0)) == [path]
    assert is_signed_by(read_certificates(path)[0], new)
    assert place.retire_authorities() == 1
    assert place.authorities() == [new]
    assert place.retire_authorities() == 0


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let the process end just before it puts its nth file in place. Nothing is tidied up, as after a SIGKILL."""
    replace, unlink = os.replace, os.unlink

    def arm(number: int) -> None:
        numbers = count(1)

        def replace_or_die(source: str, target: Path) -> None:
            if next(numbers) == number:
                raise KilledError
            replace(source, target)

        monkeypatch.setattr(os, "replace", replace_or_die)
        monkeypatch.setattr(os, "unlink", lambda path: None)

    yield arm
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "unlink", unlink)


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_an_authority_is_made_leaves_none(
    tmp_path: Path, kill_at: Callable[[int], None], number: int
) -> None:
    place = CaDirectory(tmp_path / "ca")
    kill_at(number)
    with pytest.raises(KilledError):
        place.init("test CA", LIFETIME)
    kill_at(0)
    with pytest.raises(ConfigError, match="there is no authority"):
        place.issue(BROKER, LIFETIME)
    place.init("test CA", LIFETIME)
    assert is_pair(place.issue(BROKER, LIFETIME))
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in place.path.glob("*.key"))


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_a_certificate_is_issued_leaves_none(
    place: CaDirectory, kill_at: Callable[[int], None], number: int
) -> None:
    kill_at(number)
    with pytest.raises(KilledError):
        place.issue(BROKER, LIFETIME)
    kill_at(0)
    assert list(place.entries()) == []
    assert is_pair(place.issue(BROKER, LIFETIME))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_kill_in_a_rotation_is_repaired_by_the_next_one(
    place: CaDirectory, kill_at: Callable[[int], None], number: int
) -> None:
    paths = [place.issue(Subject(Role.BROKER, f"{n}", ("localhost",)), timedelta(days=20)) for n in range(2)]
    kill_at(number)
    with pytest.raises(KilledError):
        place.rotate(LIFETIME, timedelta(days=30))
    kill_at(0)
    place.rotate(LIFETIME, timedelta(days=30))
    assert all(is_pair(path) for path in paths)
    assert all(
        entry.certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300) for entry in place.entries()
    )


def test_a_key_without_its_certificate_is_reason_enough_to_issue_both_again(
    place: CaDirectory, kill_at: Callable[[int], None]
) -> None:
    path = place.issue(BROKER, LIFETIME)
    kill_at(2)
    with pytest.raises(KilledError):
        place.rotate(LIFETIME, timedelta(0), ["broker-0"])
    kill_at(0)
    assert not is_pair(path)
    assert place.rotate(LIFETIME, timedelta(0)) == [path]
    assert is_pair(path)


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_the_authority_is_replaced_leaves_one_that_signs(
    place: CaDirectory, kill_at: Callable[[int], None], number: int
) -> None:
    path = place.issue(BROKER, LIFETIME)
    (former,) = place.authorities()
    kill_at(number)
    with pytest.raises(KilledError):
        place.replace_authority(LIFETIME)
    kill_at(0)
    assert former in place.authorities(), "what it has signed is still trusted"
    assert place.authority().certificate == former
    place.replace_authority(LIFETIME)
    place.rotate(LIFETIME, timedelta(0))
    place.retire_authorities()
    assert place.authorities() == [place.authority().certificate]
    assert is_pair(path)


# ---- the command line ------------------------------------------------------------------------------------------------


def ca(place: CaDirectory, *arguments: str) -> int:
    return run(["ca", *arguments, "--dir", str(place.path)])


def test_show_says_for_whom_where_and_until_when(place: CaDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    assert ca(place, "issue", "broker", "0", "--host", "b-0.example", "--host", "10.0.0.7") == 0
    assert ca(place, "issue", "client", "alice") == 0
    capsys.readouterr()
    assert ca(place, "show", "-o", "jsonl") == 0
    authority, broker, client = map(json.loads, capsys.readouterr().out.splitlines())
    assert authority["kind"] == "authority"
    assert (broker["kind"], broker["name"], broker["uri"]) == ("broker", "0", "ottla://broker/0")
    assert broker["hosts"] == ["b-0.example", "10.0.0.7"]
    assert (client["kind"], client["subject"], client["uri"]) == ("client", "CN=alice", None)
    assert (authority["days_left"], broker["days_left"]) == (364, 364)
    assert re.fullmatch("([0-9A-F]{2}:){31}[0-9A-F]{2}", broker["fingerprint"])
    assert ca(place, "show", str(place.path / "client-alice.pem"), "-o", "name") == 0
    assert capsys.readouterr().out.strip() == str(place.path / "client-alice.pem")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("issue", "broker"), "Missing argument"),
        (("issue", "gravedigger", "0"), "'gravedigger' is nothing that has a certificate; give one of broker,"),
        (("rotate", "--authority", "--retire"), "--authority and --retire exclude each other"),
        (("rotate", "--retire", "broker-0"), "an authority is rotated without names"),
        (("rotate", "--within", "soon"), "is not a duration"),
        (("show", "nowhere.pem"), "nowhere.pem can't be read: No such file or directory"),
        (("init",), "there is an authority in"),
    ],
)
def test_a_mistake_is_one_line_and_no_traceback(
    place: CaDirectory, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert ca(place, *arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
