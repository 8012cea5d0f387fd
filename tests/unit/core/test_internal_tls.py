"""The files of a service's certificate: what is accepted, and what becomes of files that change."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path, PurePath

import pytest
from service_certificates import ServiceCertificates

from ottla_cli.main import run
from ottla_core.clock import ManualClock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.internal_tls import Files, InternalTls, internal_tls
from ottla_core.security.service_identity import Role
from ottla_stack.ca.subject import Subject

BROKER = Subject(Role.BROKER, "0", ("localhost",))


@pytest.fixture
def services(tmp_path: Path) -> ServiceCertificates:
    return ServiceCertificates(tmp_path / "ca")


def replace(path: Path, content: bytes) -> None:
    """Replace a file in one step, as those do who care for their readers."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(content)
    temporary.rename(path)


def test_no_setting_means_plaintext_and_an_incomplete_set_is_a_mistake() -> None:
    none, file = PurePath(), PurePath("a")
    assert internal_tls(none, none, none, role=Role.BROKER) is None
    for given in ((file, none, none), (none, file, file), (file, file, none)):
        with pytest.raises(OttlaError, match="belong together") as told:
            internal_tls(*given, role=Role.BROKER)
        assert told.value.code == ErrorCode.INVALID_CONFIG


def test_a_certificate_of_the_right_role_is_accepted_also_in_one_file_with_its_key(
    services: ServiceCertificates, tmp_path: Path
) -> None:
    assert str(services.of(Role.BROKER, "7").identity) == "broker/7"
    files = services.files(Role.BROKER, "7")
    both = tmp_path / "both.pem"
    both.write_bytes(files.certificate.read_bytes() + files.key.read_bytes())
    assert str(InternalTls(Files(both, both, files.ca), Role.BROKER).identity) == "broker/7"


def _wrong_role(services: ServiceCertificates, files: Files) -> None:
    issued = services.issued(Subject(Role.CONTROLLER, "0", ("localhost",)))
    files.certificate.write_bytes(issued.certificate)
    files.key.write_bytes(issued.key)


def _clients(services: ServiceCertificates, files: Files) -> None:
    issued = services.issued(Subject("client", "alice"))
    files.certificate.write_bytes(issued.certificate)
    files.key.write_bytes(issued.key)


def _expired(services: ServiceCertificates, files: Files) -> None:
    issued = services.issued(BROKER, timedelta(minutes=-1))
    files.certificate.write_bytes(issued.certificate)
    files.key.write_bytes(issued.key)


def _foreign(services: ServiceCertificates, files: Files) -> None:
    other = ServiceCertificates(services.path / "other")
    files.ca.write_bytes(other.directory.authorities_path.read_bytes())


def _others_key(services: ServiceCertificates, files: Files) -> None:
    files.key.write_bytes(services.issued(BROKER).key)


def _no_pem(services: ServiceCertificates, files: Files) -> None:
    files.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def _no_key(services: ServiceCertificates, files: Files) -> None:
    files.key.write_bytes(b"secret words of nobody")


def _gone(services: ServiceCertificates, files: Files) -> None:
    files.ca.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_wrong_role, "is of controller/0, and the role has to be broker"),
        (_clients, "names no role of a service"),
        (_expired, "has expired at"),
        (_foreign, "no authority in .* has signed"),
        (_others_key, "is not the key of"),
        (_no_pem, "has no certificate in PEM format"),
        (_no_key, "has no unencrypted key in PEM format"),
        (_gone, "internal_tls_ca .* can't be read: No such file"),
    ],
)
def test_files_that_can_not_work_are_an_error_that_says_what_to_do(
    services: ServiceCertificates, spoil: Callable[[ServiceCertificates, Files], None], said: str
) -> None:
    services.of(Role.BROKER)
    files = services.files(Role.BROKER)
    spoil(services, files)
    with pytest.raises(OttlaError, match=said) as told:
        InternalTls(files, Role.BROKER)
    assert told.value.code == ErrorCode.INVALID_CONFIG
    assert told.value.hint
    assert "secret" not in str(told.value)


def test_new_files_are_used_once_they_are_complete(
    services: ServiceCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls, files = services.of(Role.BROKER), services.files(Role.BROKER)
    before, issued = tls.current(), services.issued(BROKER, timedelta(days=90))
    assert tls.current() is before
    replace(files.key, issued.key)
    assert tls.current() is before, "the key is not of this certificate"
    assert tls.current() is before
    assert sum("the former certificate stays in use" in line for line in caplog.messages) == 1, "it is said once"
    replace(files.certificate, issued.certificate)
    after = tls.current()
    assert after is not before
    assert after.expires_at < before.expires_at
    assert (tls.current(), tls.expires_at) == (after, after.expires_at)
    assert "new connections to and from other services use another certificate of broker/0" in caplog.messages


def test_a_channel_looks_at_the_files_at_most_once_a_second(
    services: ServiceCertificates,
) -> None:
    services.of(Role.BROKER)
    files, clock = services.files(Role.BROKER), ManualClock(wall_ms=time.time_ns() // 1_000_000)
    tls = InternalTls(files, Role.BROKER, clock)
    before, issued = tls.recent(), services.issued(BROKER)
    replace(files.key, issued.key)
    replace(files.certificate, issued.certificate)
    clock.advance(0.9)
    assert tls.recent() is before
    clock.advance(0.2)
    assert tls.recent() is not before


def test_files_that_vanish_leave_the_former_certificate_in_use(services: ServiceCertificates) -> None:
    tls, files = services.of(Role.BROKER), services.files(Role.BROKER)
    before = tls.current()
    files.certificate.unlink()
    assert tls.current() is before


def test_a_certificate_that_ends_soon_is_worth_a_warning(
    services: ServiceCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    services.of(Role.BROKER)
    assert not caplog.messages
    files, issued = services.files(Role.BROKER), services.issued(BROKER, timedelta(days=29))
    replace(files.key, issued.key)
    replace(files.certificate, issued.certificate)
    InternalTls(files, Role.BROKER)
    command = f"ottla ca rotate broker-0 --dir {services.path}"
    assert re.search(
        rf"the certificate of broker/0 expires at \S+ \S+ UTC; issue another one with `{re.escape(command)}`",
        caplog.text,
    )
    assert run(shlex.split(command)[1:]) == 0, "it works where it is pasted"
    caplog.clear()
    InternalTls(files, Role.BROKER)
    assert not caplog.messages


def test_the_directory_of_an_authority_that_is_elsewhere_is_left_to_the_operator(
    services: ServiceCertificates, tmp_path: Path
) -> None:
    services.of(Role.BROKER)
    files = services.files(Role.BROKER)
    _expired(services, files)
    copies = Files(*(Path(shutil.copy(file, tmp_path)) for file in files))
    with pytest.raises(OttlaError) as told:
        InternalTls(copies, Role.BROKER)
    assert "`ottla ca rotate broker-0 --dir DIR`, where DIR has its authority, and copy it here" in told.value.hint
