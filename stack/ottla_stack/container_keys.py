"""Makes the certificates, passwords and tokens of a stack in containers, and hands each container its own.

docker-compose.secure.yml runs `python -m ottla_stack.container_keys` as root before the services start. The authorities
are in a volume that no other container has. Each directory of `handed_out` is the volume of the container that it is
named after, such as broker-0. The files there have names that do not depend on the container, so all services of a kind
have one set of settings.

Root owns these files, and the container's group may read them. So no service can read another one's key, or replace its
own. A file whose content is up to date is left alone, since services read their files again after a change.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.errors import config_error
from ottla_core.errors import OttlaError
from ottla_core.host_port import HostPort
from ottla_core.security.service_identity import Role
from ottla_stack.ca.directory import CaDirectory
from ottla_stack.ca.subject import CLIENT as CLIENT_KIND
from ottla_stack.ca.subject import LISTENER as LISTENER_KIND
from ottla_stack.ca.subject import LOCAL_HOSTS, Subject, subject
from ottla_stack.container_users import CLIENT, INSIDE, LOAD, SPARK
from ottla_stack.etcd_roles import ROOT
from ottla_stack.etcd_users import NAMES
from ottla_stack.private_files import make_private_directory, replace_file, write_private
from ottla_stack.secure import LOGIN, issue_missing, make_first_user, make_password, password_in, profile
from ottla_stack.secure_files import ADMIN, ETCD, PROFILE, SecureFiles

PROMETHEUS: Final = "prometheus"
REDIS: Final = "redis"
ETCD_USERS: Final = "etcd-users"
"""These are names of directories: of Prometheus, of Redis, and of the container that makes the users of etcd."""
ARCHIVE: Final = "ottla-client"
"""The directory in the archive for a client on the host."""

_DIRECTORY: Final = Path("/var/lib/ottla/security")
_HANDED_OUT: Final = Path("/run/ottla")
_INSIDE, _OUTSIDE = "BOOTSTRAP_INSIDE", "BOOTSTRAP_OUTSIDE"
_ADDRESSES: Final = r"[^\s:,']+:\d+(,[^\s:,']+:\d+)*"
_GROUP: Final = 10001
"""The group of our images. Etcd's, too, is one of them."""
_GROUP_OF_PROMETHEUS: Final = 65534
_MODE: Final = 0o640
_TOKEN_BYTES: Final = 32
_ROLES: Final = frozenset({Role.CONTROLLER, Role.BROKER, Role.GROUP_COORDINATOR, Role.TXN_COORDINATOR})
_OTHERS: Final = frozenset({CLIENT, ETCD, ETCD_USERS, LOAD, PROMETHEUS, REDIS, SPARK})
"""The directories that are not named after services."""
_USAGE: Final = "usage: python -m ottla_stack.container_keys [rotate [OPTION...] | client]"


def group_of(name: str) -> int:
    """Return the group of the processes in the container of that name."""
    return _GROUP_OF_PROMETHEUS if name == PROMETHEUS else _GROUP


@dataclass(frozen=True, slots=True)
class ContainerKeys:
    """The keys of all containers. `inside` and `outside` are the brokers' addresses for clients in containers and for
    those on the host."""

    files: SecureFiles
    handed_out: Path
    inside: str
    outside: str
    group_of: Callable[[str], int] = group_of

    def make_missing(self) -> None:
        """Make what is missing, and issue certificates again whose hosts have changed or that end soon. Raises
        ConfigError."""
        make_private_directory(self.files.directory)
        services = [_service(name) for name in self._service_names()]
        brokers = [each.hosts[0] for each in services if each.kind == Role.BROKER]
        issue(self.files.ca, [*services, *map(self._listener, brokers)])
        etcd = subject(LISTENER_KIND, ETCD, [ETCD, *LOCAL_HOSTS])
        users = [ROOT, ETCD, *self._service_names()]
        issue(self.files.etcd_ca, [etcd, *(subject(CLIENT_KIND, name) for name in users)])
        make_first_user(self.files)
        for user in (LOAD, SPARK, REDIS):
            make_password(self._password(user))
        for path in (self._token, self._spark_secret):
            if not path.exists():
                write_private(path, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")

    def hand_out(self) -> None:
        """Write to each container's directory what is new for it. Raises ConfigError."""
        for name in self.names():
            for file, content in self.contents(name).items():
                path = self.handed_out / name / file
                if not path.exists() or path.read_bytes() != content:
                    replace_file(path, content, _MODE, self.group_of(name))

    def names(self) -> list[str]:
        """Return the names of the containers. Raises ConfigError if there is none."""
        names = sorted(path.name for path in self.handed_out.glob("*"))
        if not names:
            raise config_error(
                f"{self.handed_out} has no directory of a container",
                hint="run this in the container `certificates` of docker-compose.secure.yml",
            )
        return names

    def contents(self, name: str) -> dict[str, bytes]:
        """Return the files of a container in the order in which they are written: authorities first, and a key before
        its certificate. Raises ConfigError."""
        match name:
            case _ if name == CLIENT:
                return self._for_clients()
            case _ if name == LOAD:
                return self._for_user(name)
            case _ if name == SPARK:
                return {**self._for_user(name), "spark.conf": self._spark_settings()}
            case _ if name == REDIS:
                return {"redis.conf": f"requirepass {password_in(self._password(REDIS))}\n".encode()}
            case _ if name == ETCD_USERS:
                names = "".join(f"{each}\n" for each in self._service_names())
                return {NAMES: names.encode(), **{file: _read(path) for file, path in self._of_etcd(ROOT).items()}}
            case _ if name == PROMETHEUS:
                paths = {"admin.token": self._token}
            case _ if name == ETCD:
                certificate, key, authorities = self.files.etcd
                paths = {"etcd-ca.pem": authorities, "etcd.key": key, "etcd.pem": certificate, **self._of_etcd(name)}
            case _:
                paths = self._for_service(_service(name))
        return {file: _read(path) for file, path in paths.items()}

    def _service_names(self) -> list[str]:
        return [name for name in self.names() if name not in _OTHERS]

    @property
    def _token(self) -> Path:
        return self.files.directory / "admin.token"

    @property
    def _spark_secret(self) -> Path:
        return self.files.directory / "spark.secret"

    def _password(self, user: str) -> Path:
        return self.files.directory / f"{user}.password"

    def _listener(self, broker: str) -> Subject:
        """Return the subject of a Kafka listener, which clients reach by the broker's name and from outside."""
        outside = [HostPort.parse(address).host for address in self.outside.split(",")]
        return subject(LISTENER_KIND, broker, list(dict.fromkeys([broker, *outside, *LOCAL_HOSTS])))

    def _of_etcd(self, user: str) -> dict[str, Path]:
        """Return the files by which a container is this user of etcd."""
        client = self.files.etcd_client(user)
        return {
            "etcd-ca.pem": Path(client.ca),
            "etcd-client.key": Path(client.key),
            "etcd-client.pem": Path(client.certificate),
        }

    def _for_service(self, service: Subject) -> dict[str, Path]:
        certificate = self.files.ca / f"{service.file_name}.pem"
        paths = {
            "ca.pem": self.files.ca / "ca.pem",
            "service.key": certificate.with_suffix(".key"),
            "service.pem": certificate,
            **self._of_etcd(service.file_name),
            "admin.token": self._token,
        }
        if service.kind == Role.BROKER:
            paths["listener.keystore.pem"] = self.files.ca / f"{LISTENER_KIND}-{service.file_name}.keystore.pem"
            paths["users.toml"] = self.files.users
        return paths

    def _for_user(self, user: str) -> dict[str, bytes]:
        """Return the files by which a client in a container logs in as this user."""
        return {
            "ca.pem": _read(self.files.ca / "ca.pem"),
            f"{user}.password": _read(self._password(user)),
            "clients.toml": profile(INSIDE, self.inside, user, f"{user}.password", "ca.pem").encode(),
        }

    def _spark_settings(self) -> bytes:
        """Return the settings by which Spark's processes know each other. Without them, whoever reaches the master may
        run a program in a worker, where the user's password is. Jobs have no web pages, because these would be open to
        all."""
        settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": password_in(self._spark_secret),
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.saslFallback": "false",
            "spark.ui.enabled": "false",
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items()).encode()

    def _for_clients(self) -> dict[str, bytes]:
        password = _read(self.files.password).decode().strip()
        profiles = [
            profile(name, bootstrap, ADMIN, "admin.password", "ca.pem")
            for name, bootstrap in ((PROFILE, self.outside), (INSIDE, self.inside))
        ]
        # kcat logs in by PLAIN. In SCRAM's last message, librdkafka before 2.6.1, such as Debian's, repeats the
        # client's nonce. ottla accepts that, and Kafka 4.3 does not.
        librdkafka = {
            "bootstrap.servers": self.outside,
            **LOGIN,
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": password,
            "ssl.ca.location": f"{ARCHIVE}/ca.pem",
        }
        return {
            "ca.pem": _read(self.files.ca / "ca.pem"),
            "admin.password": f"{password}\n".encode(),
            "redis.password": _read(self._password(REDIS)),
            "clients.toml": "\n".join(profiles).encode(),
            "kcat.conf": "".join(f"{name}={value}\n" for name, value in librdkafka.items()).encode(),
        }


def issue(directory: Path, subjects: Sequence[Subject]) -> None:
    """Issue the certificates that are missing, that name other hosts or that end soon. Raises ConfigError."""
    place, hosts = CaDirectory(directory), {each.file_name: set(each.hosts) for each in subjects}
    for entry in place.entries():
        if hosts.get(entry.subject.file_name, set(entry.subject.hosts)) != set(entry.subject.hosts):
            entry.path.unlink()
    issue_missing(directory, subjects)


def _service(name: str) -> Subject:
    kind, _, number = name.rpartition("-")
    if kind not in _ROLES:
        raise config_error(
            f"{name[:80]!r} is no container that gets keys",
            hint=f"name its directory after a service, such as broker-0, or {', '.join(sorted(_OTHERS))}",
        )
    return subject(kind, number, [name])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise config_error(f"{path} can't be read: {error.strerror}", hint="run this command without words") from None


def rotate(keys: ContainerKeys, options: Sequence[str]) -> int:
    """Run `ottla ca rotate` for both authorities, and return its exit code."""
    for directory in (keys.files.ca, keys.files.etcd_ca):
        command = [sys.executable, "-m", "ottla", "ca", "rotate", "--dir", str(directory), *options]
        if code := subprocess.run(command, check=False).returncode:
            return code
    return 0


def write_archive(directory: Path) -> None:
    """Write the clients' files as a tar archive to standard output, for the one who unpacks it and nobody else."""
    if sys.stdout.isatty():
        raise config_error("the output is a tar archive", hint="unpack it: … client | tar -x")

    def private(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o700 if member.isdir() else 0o600
        return member

    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(directory, ARCHIVE, filter=private)


def _addresses(variable: str) -> str:
    """Return the addresses of brokers in a variable of the environment. Raises ConfigError."""
    addresses = os.environ.get(variable, "")
    if not re.fullmatch(_ADDRESSES, addresses):
        hint = "set it to host:port of each broker, separated by commas"
        raise config_error(f"{variable} is {addresses[:80]!r}, which has no address of a broker", hint=hint)
    return addresses


def main(words: Sequence[str]) -> int:
    try:
        keys = ContainerKeys(SecureFiles(_DIRECTORY), _HANDED_OUT, _addresses(_INSIDE), _addresses(_OUTSIDE))
        match words:
            case []:
                keys.make_missing()
                keys.hand_out()
                print("each container has its certificates; for a client on this host:")
                print("  docker-compose run --rm -T certificates client | tar -x")
                print(f"  export OTTLA_CONFIG=$PWD/{ARCHIVE}/clients.toml OTTLA_PROFILE={PROFILE}")
            case ["client"]:
                write_archive(keys.handed_out / CLIENT)
            case ["rotate", *options]:
                keys.make_missing()
                code = rotate(keys, options)
                keys.hand_out()
                return code
            case _:
                print(_USAGE, file=sys.stderr)
                return 2
    except OttlaError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
