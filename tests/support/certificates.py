"""Certificates for tests, issued by authorities that each test makes for itself with OpenSSL."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LIMIT_S: Final = 30.0
CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
SLOW_KEY: Final = ("-newkey", "rsa:4096")
"""A key with which a broker takes ten times as long for a handshake."""


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and its private key. `both` has the two of them, as Kafka wants its keystores."""

    certificate: Path
    key: Path
    both: Path

    @property
    def der(self) -> bytes:
        """This is the certificate as TLS shows it."""
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())


class Authority:
    """Issues certificates that are valid for a day."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder: Final = folder
        self.certificate: Final = folder / "ca.pem"
        self._key: Final = folder / "ca.key"
        openssl(
            *("req", "-x509", *CURVE, "-nodes", "-days", "1", "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def issue(self, name: str, *hosts: str, days: int = 1, key_kind: Sequence[str] = CURVE) -> Certificate:
        """Issue a certificate for these hosts: "DNS:localhost", "IP:127.0.0.1". With -1 days it has expired."""
        key, request, signed = (self._folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(hosts)}\n" if hosts else "")
        openssl("req", *key_kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", str(days), "-extfile", extensions, "-out", signed),
        )
        both = self._folder / f"{name}-both.pem"
        both.touch(0o600)
        both.write_text(key.read_text() + signed.read_text())
        return Certificate(signed, key, both)


def encrypted(key: Path, password: str) -> Path:
    """Return a file with the private key, encrypted by the password."""
    file = key.with_suffix(".encrypted")
    openssl("pkcs8", "-topk8", "-in", key, "-out", file, "-passout", f"pass:{password}")
    return file


def openssl(*arguments: str | Path) -> None:
    """Run OpenSSL, which has to succeed."""
    command = shutil.which("openssl")
    assert command is not None, "this test needs the command openssl: apt-get install openssl"
    done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
