"""Runs an etcd that knows its clients by certificates and passwords, and has roles for a prefix of keys."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Final
from urllib.request import urlopen

from certificates import Authority, Certificate, openssl

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_stack.embedded_etcd import EmbeddedEtcd, EtcdTls, find_etcd, plan_etcd

USER: Final = "ottla"
OTHER: Final = "somebody"
"""The role of this user has other keys."""
PASSWORD: Final = "planted-password-of-etcd-4711"
_LIMIT_S: Final = 30.0


@dataclass(frozen=True)
class SecuredEtcd:
    """`etcd` trusts certificates of `authority` alone. `USER` and `OTHER` have passwords and certificates."""

    etcd: EmbeddedEtcd
    authority: Authority
    folder: Path
    root: Certificate
    server: Certificate

    @property
    def endpoint(self) -> str:
        return self.etcd.endpoint

    def by_certificate(self, user: str = USER) -> EtcdSecurity:
        """Return the security of a service whose certificate names the user."""
        return self.with_certificate(self.authority.issue(user, "DNS:client"))

    def with_certificate(self, certificate: Certificate) -> EtcdSecurity:
        certificate.key.chmod(0o600)
        return EtcdSecurity(self.authority.certificate, certificate.certificate, certificate.key)

    def by_password(self, user: str = USER, password: str = PASSWORD) -> EtcdSecurity:
        """Return the security of a service that logs in. Its certificate names nobody whom etcd knows."""
        file = self.folder / f"{user}.password"
        file.touch(0o600)
        file.write_text(password)
        return replace(self.by_certificate("a-service"), user=user, password_file=file)

    @property
    def logins(self) -> int:
        """This is how many tokens etcd has issued since it started."""
        with urlopen(f"http://127.0.0.1:{self.etcd.plan.health_port}/metrics", timeout=5) as response:
            text = response.read().decode()
        found = re.search(r'grpc_server_handled_total\{grpc_code="OK",grpc_method="Authenticate",.*\} (\d+)', text)
        return int(found[1]) if found else 0

    def change_password(self, password: str) -> None:
        """Change the password of `USER`, which makes all its tokens invalid."""
        self.ctl("user", "passwd", USER, "--interactive=false", typed=password)

    def ctl(self, *arguments: str, typed: str = "") -> str:
        """Run etcdctl as root, and return its output. `typed` is its input."""
        return etcdctl(self.endpoint, self.with_certificate(self.root), *arguments, typed=typed)


@contextmanager
def secured_etcd(folder: Path, *prefixes: str, flags: tuple[str, ...] = ()) -> Iterator[SecuredEtcd]:
    """Run an etcd with authentication, in which `USER` may read and write the keys with these prefixes."""
    authority = Authority(folder / "ca")
    server, root = authority.issue("etcd", "IP:127.0.0.1"), authority.issue("root", "DNS:root")
    plan = plan_etcd(folder / "etcd", tls=EtcdTls(server.certificate, server.key, authority.certificate))
    etcd = EmbeddedEtcd(replace(plan, flags=("--bcrypt-cost", "4", *flags)))
    etcd.start()
    try:
        secured = SecuredEtcd(etcd, authority, folder, root, server)
        secured.ctl("user", "add", "root", "--no-password")
        for user, granted in ((USER, prefixes), (OTHER, ("/elsewhere/",))):
            secured.ctl("role", "add", user)
            for prefix in granted:
                secured.ctl("role", "grant-permission", user, "readwrite", prefix, "--prefix")
            secured.ctl("user", "add", f"{user}:{PASSWORD}")
            secured.ctl("user", "grant-role", user, user)
        secured.ctl("user", "grant-role", "root", "root")
        secured.ctl("auth", "enable")
        yield secured
    finally:
        etcd.stop()


def short_tokens(folder: Path, seconds: int) -> tuple[str, ...]:
    """Return the flags of an etcd whose tokens end after so many seconds, however often they are used."""
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / "tokens.key", folder / "tokens.pub"
    openssl("genrsa", "-out", private, "2048")
    openssl("rsa", "-in", private, "-pubout", "-out", public)
    return ("--auth-token", f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl={seconds}s")


def etcdctl(endpoint: str, security: EtcdSecurity, *arguments: str, typed: str = "") -> str:
    """Run etcdctl with a certificate, and return its output. `typed` is its input."""
    command: list[str | PurePath] = [_etcdctl(), "--endpoints", endpoint]
    command += ["--cacert", security.ca, "--cert", security.certificate, "--key", security.key, *arguments]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _etcdctl() -> Path:
    beside = find_etcd().resolve().with_name("etcdctl")
    found = beside if beside.exists() else Path(shutil.which("etcdctl") or "")
    assert found != Path(), "this test needs the command etcdctl: apt-get install etcd-client"
    return found
