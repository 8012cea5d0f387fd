"""Keeps the files of an authority: ca.pem, ca.key, and a certificate and a key for each subject.

A Kafka listener and a Kafka client have both in one file, too, which ends with .keystore.pem.
ca.pem has all authorities that are trusted, so it is what services and clients get. The one that signs is the one whose
key is in ca.key. A file appears whole or not at all, whenever a command is killed, and a key is written before its
certificate. What a kill may leave is a key without its certificate, which the next command replaces.
"""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from ottla.errors import config_error
from ottla_core.security.service_identity import AUTHORITY_KEY
from ottla_stack.ca.authority import Authority, pem_of, pem_of_key
from ottla_stack.ca.subject import Subject, subject_of
from ottla_stack.private_files import make_private_directory, replace_file

AUTHORITY_NAME: Final = "ottla CA"
AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LIFETIME: Final = timedelta(days=365)
AUTHORITIES: Final = "ca.pem"
_CERTIFICATE: Final = ".pem"
_KEY: Final = ".key"
_KEYSTORE: Final = ".keystore.pem"
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


class Entry(NamedTuple):
    """A certificate that was issued here, and for whom."""

    path: Path
    certificate: x509.Certificate
    subject: Subject


class CaDirectory:
    """The directory of an authority. Every method raises ConfigError for what an operator can correct."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.authorities_path: Final = path / AUTHORITIES
        self._key_path: Final = path / AUTHORITY_KEY

    def init(self, name: str, lifetime: timedelta) -> None:
        """Make the authority, unless there is one."""
        make_private_directory(self.path)
        with self._locked():
            if self.authorities_path.exists():
                raise config_error(
                    f"there is an authority in {self.path} already",
                    hint=f"give another --dir, or make a new authority with {self.command('rotate', '--authority')}",
                )
            authority = Authority.new(name, lifetime, datetime.now(UTC))
            replace_file(self._key_path, pem_of_key(authority.key), _PRIVATE)
            replace_file(self.authorities_path, pem_of(authority.certificate), _PUBLIC)

    def issue(self, subject: Subject, lifetime: timedelta) -> Path:
        """Issue a certificate, and return its path. The key is beside it."""
        path = self._path_of(subject)
        with self._locked():
            authority = self.authority()
            if path.exists():
                raise config_error(
                    f"there is a certificate in {path} already",
                    hint=f"issue it again with {self.command('rotate', subject.file_name)}, or delete it first",
                )
            _write_issued(path, authority, subject, lifetime)
        return path

    def issue_missing(self, subjects: Sequence[Subject], lifetime: timedelta) -> None:
        """Issue a certificate for each of the subjects that has none."""
        with self._locked():
            authority = self.authority()
            for subject in subjects:
                path = self._path_of(subject)
                if not path.exists():
                    _write_issued(path, authority, subject, lifetime)

    def rotate(self, lifetime: timedelta, within: timedelta, names: Sequence[str] = ()) -> list[Path]:
        """Issue the named certificates again, or those that end within this time, that the authority has not signed
        or whose key is missing or another's. Return their paths. Hosts and names stay as they are."""
        soon = datetime.now(UTC) + within
        with self._locked():
            authority = self.authority()
            entries = {entry.path.stem: entry for entry in self.entries()}
            unknown = [name for name in names if name not in entries]
            if unknown:
                raise config_error(
                    f"there is no certificate {unknown[0]!r} in {self.path}",
                    hint=f"see {self.command('show')} for their names",
                )
            due = [entries[name] for name in dict.fromkeys(names)] or [
                entry for entry in entries.values() if _is_due(entry, authority, soon)
            ]
            for entry in due:
                _write_issued(entry.path, authority, entry.subject, lifetime)
        return [entry.path for entry in due]

    def replace_authority(self, lifetime: timedelta) -> None:
        """Make a new authority, which signs from now on. The former ones stay trusted, so nothing is cut."""
        with self._locked():
            former = self.authorities()
            authority = Authority.new(name_of_authority(former[0]), lifetime, datetime.now(UTC))
            # The new authority is trusted before it signs. A kill in between leaves one that never signs anything.
            replace_file(self.authorities_path, b"".join(map(pem_of, [authority.certificate, *former])), _PUBLIC)
            replace_file(self._key_path, pem_of_key(authority.key), _PRIVATE)

    def retire_authorities(self) -> int:
        """Stop trusting the former authorities, and return how many they were."""
        with self._locked():
            authority = self.authority()
            left = [entry.path.name for entry in self.entries() if not authority.has_signed(entry.certificate)]
            if left:
                raise config_error(
                    f"a former authority has signed {', '.join(left[:5])}{' and others' if left[5:] else ''}",
                    hint=f"run {self.command('rotate')}, give the services their new certificates, and try again",
                )
            former = len(self.authorities()) - 1
            replace_file(self.authorities_path, pem_of(authority.certificate), _PUBLIC)
        return former

    def authority(self) -> Authority:
        """Return the authority that signs. Raises ConfigError if it has expired."""
        certificates = self.authorities()
        key = _read_key(self._key_path)
        certificate = next((each for each in certificates if each.public_key() == key.public_key()), None)
        if certificate is None:
            raise config_error(
                f"{self._key_path} is the key of no authority in {self.authorities_path}",
                hint="restore the file from a backup, or make a new authority with "
                f"{self.command('rotate', '--authority')}",
            )
        if certificate.not_valid_after_utc <= datetime.now(UTC):
            raise config_error(
                f"the authority in {self.path} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
                hint=f"make a new one with {self.command('rotate', '--authority')}, and then run "
                f"{self.command('rotate')}",
            )
        return Authority(certificate, key)

    def authorities(self) -> list[x509.Certificate]:
        """Return all authorities that are trusted."""
        if not self.authorities_path.exists():
            raise config_error(f"there is no authority in {self.path}", hint=f"make one with {self.command('init')}")
        return read_certificates(self.authorities_path)

    def entries(self) -> Iterator[Entry]:
        """Yield the certificates that were issued here, by name."""
        for path in sorted(self.path.glob(f"*{_CERTIFICATE}")):
            if path.name != AUTHORITIES and not path.name.endswith(_KEYSTORE):
                certificate = read_certificates(path)[0]
                subject = subject_of(certificate)
                if subject is not None and path.name == f"{subject.file_name}{_CERTIFICATE}":
                    yield Entry(path, certificate, subject)

    def command(self, *words: str) -> str:
        """Return a command line of `ottla ca` for this directory, which works wherever it is pasted."""
        return f"`{shlex.join(('ottla', 'ca', *words, '--dir', str(self.path.absolute())))}`"

    def _path_of(self, subject: Subject) -> Path:
        return self.path / f"{subject.file_name}{_CERTIFICATE}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other commands out, whose key would otherwise stand beside this one's certificate."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError:
            raise config_error(
                f"there is no authority in {self.path}", hint=f"make one with {self.command('init')}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise config_error(
                f"another command is at work in {self.path}", hint="try again when it has ended"
            ) from None
        finally:
            os.close(descriptor)


def name_of_authority(certificate: x509.Certificate) -> str:
    """Return the name without the random part that distinguishes it from its predecessors."""
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value).rpartition(" ")[0]


def read_certificates(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise config_error(f"{path} can't be read: {error.strerror}", hint="check its path and its owner") from None
    except ValueError:
        raise config_error(f"{path} has no certificate in PEM format", hint="restore it, or delete it") from None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise config_error(f"{path} can't be read: {error.strerror}", hint="run this as the owner of the key") from None
    except (ValueError, TypeError):  # a TypeError means that it is encrypted
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise config_error(f"{path} is no key that `ottla ca` has written", hint="restore it from a backup")
    return key


def _is_due(entry: Entry, authority: Authority, soon: datetime) -> bool:
    return (
        entry.certificate.not_valid_after_utc <= soon
        or not authority.has_signed(entry.certificate)
        or not _has_its_key(entry)
    )


def _write_issued(path: Path, authority: Authority, subject: Subject, lifetime: timedelta) -> None:
    issued = authority.issue(subject, lifetime, datetime.now(UTC))
    if subject.identity is None:
        # Kafka's brokers and its Java clients want the key and the certificate in one file.
        replace_file(path.with_suffix(_KEYSTORE), issued.key + issued.certificate, _PRIVATE)
    replace_file(path.with_suffix(_KEY), issued.key, _PRIVATE)
    replace_file(path, issued.certificate, _PUBLIC)


def _has_its_key(entry: Entry) -> bool:
    with suppress(OSError, ValueError, TypeError):
        key = load_pem_private_key(entry.path.with_suffix(_KEY).read_bytes(), password=None)
        return key.public_key() == entry.certificate.public_key()
    return False
