"""How a client encrypts its connections: what users pass as `tls=`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import config_error
from ottla_core.security.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Tls:
    """Encrypts connections by TLS 1.2 or later, and verifies the broker's certificate.

    Args:
        ca: a PEM file with the certificates of the authorities that the client trusts; by default the system's.
        certificate: a PEM file with the client's own certificate and its chain, if brokers ask for one.
        key: a PEM file with the private key; by default it is in the file of the certificate.
        key_password: the password of an encrypted private key.
        verify_hostname: whether the certificate has to be valid for the host name to which the client connects.
            Without this check, everyone with a certificate of the same authority can pass for the broker.
    """

    ca: PathLike | None = None
    certificate: PathLike | None = None
    key: PathLike | None = None
    key_password: str | Secret | None = None
    verify_hostname: bool = True

    def __post_init__(self) -> None:
        if self.key_password is not None:
            object.__setattr__(self, "key_password", Secret(self.key_password))  # the class is frozen
        if self.key is not None and self.certificate is None:
            raise config_error("tls has a key, but no certificate", hint="set certificate=, too")

    def context(self) -> SSLContext:
        """Read the files. Raises ConfigError if one of them can't be used."""
        import ssl  # here, because it takes 10 ms, which clients without TLS need not wait

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        # Like Java, trust every certificate in the file, whoever has signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = self.verify_hostname
        if self.ca is None:
            context.load_default_certs()
        else:
            self._load_ca(context, self.ca)
        if self.certificate is not None:
            self._load_certificate(context, self.certificate)
        return context

    def _load_ca(self, context: SSLContext, ca: PathLike) -> None:
        import ssl

        try:
            context.load_verify_locations(cafile=ca)
        except ssl.SSLError:
            hint = "pass a PEM file; keytool -exportcert -rfc writes one from a Java keystore"
            raise config_error(f"tls: {os.fspath(ca)} has no certificates in PEM format", hint=hint) from None
        except OSError as error:
            raise _unreadable(ca, error) from None

    def _load_certificate(self, context: SSLContext, certificate: PathLike) -> None:
        import ssl

        secret = self.key_password
        password = secret.reveal() if isinstance(secret, Secret) else ""  # None would ask for one on the terminal
        files = " and ".join(os.fspath(each) for each in (certificate, self.key) if each is not None)
        try:
            context.load_cert_chain(certificate, self.key, password)
        except ssl.SSLError as error:
            reason = error.reason or "no PEM file"
            raise config_error(
                f"tls: {files} can't be used as a certificate and its key ({reason.replace('_', ' ').lower()})",
                hint="check that both are PEM files, that they belong together, and key_password=",
            ) from None
        except OSError as error:
            raise _unreadable(files, error) from None


def _unreadable(file: PathLike, error: OSError) -> Exception:
    return config_error(f"tls: {os.fspath(file)} can't be read: {error.strerror}", hint="check the path")
