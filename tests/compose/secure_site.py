"""The secured stack: who is let in, who is not, and that neither kills, rotation nor a restart disturb those who are.

Clients on the host use what `certificates client` gives them, and nothing else. A client inside is the command line in
its own container.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from tests.compose.project import Project
from tests.compose.secure_clients import load, spark
from tests.compose.secure_etcd import try_etcd
from tests.compose.secure_ports import (
    ETCD,
    Open,
    check_keys_are_private,
    etcd_fingerprint,
    open_ports,
    try_as_a_stranger,
    try_with_keys,
)
from tests.compose.spark_job import SparkReport
from tests.compose.traffic import Access, Traffic, check_all_there
from tests.hosts.engine import install
from tests.hosts.shell import ProofError, run, say, wait_for

import ottla
from ottla.client.security.profiles import load_profile
from ottla_stack.container_keys import ARCHIVE
from ottla_stack.plan import StackPlan
from ottla_stack.secure_files import ADMIN, PROFILE

FILES: Final = ("docker-compose.yml", "docker-compose.secure.yml")
PROFILES: Final = ("tools", "load", "spark")
"""The profiles whose images are built."""
TOPIC: Final = "secured"
TOPIC_AFTER: Final = "created-after-the-crash"
TOPIC_OF_USER: Final = "for-bob"
USER: Final = "bob"
KILLED_BROKER: Final = "broker-1"
_PASSWORD: Final = "bobs-password-of-the-proof"
_UP_S: Final = 90.0
_REFUSED_S: Final = 30.0
_AUTHENTICATION: Final = "_AUTHENTICATION"
"""Librdkafka's error for a login that failed."""
_ROTATED_S: Final = 60.0
_RATE: Final = 60
"""Records per second of each producer: slow enough that records are left after every event."""
_MORE: Final = 200
"""The records that all clients have to write and read after an event."""


@dataclass
class SecureReport:
    healthy: int = 0
    ready_s: float = 0.0
    clients: list[str] = field(default_factory=list)
    """The clients that have logged in."""
    refused: dict[str, str] = field(default_factory=dict)
    """What was refused, and by which error."""
    silent_ports: int = 0
    """The ports that say nothing to another container without a certificate or the token."""
    tried_with_keys: int = 0
    refused_by_etcd: int = 0
    """How many tries were refused: of keys outside the cluster's prefix, and without a service's certificate."""
    killed: list[str] = field(default_factory=list)
    rotated: int = 0
    """The ports that have gone over to a new authority while clients went on."""
    client_errors: int = 0
    read: int = 0
    kept: bool = False
    """The authority, the users and the records are there after `down` and `up`."""
    loaded: int = 0
    """How many records Locust has written as its own user. All of them were read back."""
    spark: SparkReport = field(default_factory=SparkReport)


@dataclass(frozen=True)
class Host:
    """A client's directory on the host: the authority, the first user's password, and files for clients."""

    directory: Path

    @property
    def bootstrap(self) -> str:
        return str(self._profile["bootstrap.servers"])

    @property
    def config(self) -> dict[str, Any]:
        return {name: value for name, value in self._profile.items() if name != "bootstrap.servers"}

    @property
    def access(self) -> Access:
        command = ["env", f"OTTLA_CONFIG={self._profiles}", sys.executable, "-m", "ottla", "--profile", PROFILE]
        return Access([*command, "--timeout", "60s"], self.bootstrap, self.config)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Return kcat's settings, with the authority's path for any directory."""
        settings = (line.partition("=") for line in (self.directory / "kcat.conf").read_text().splitlines())
        return {name: value for name, _, value in settings} | {"ssl.ca.location": str(self.directory / "ca.pem")}

    def admin(self, **instead: object) -> ottla.Admin:
        """Return a client with these settings instead of the profile's own. One that is None is left out."""
        config = {**self.config, **{name.replace("_", "."): value for name, value in instead.items()}}
        return ottla.Admin(self.bootstrap, config={name: value for name, value in config.items() if value is not None})

    @property
    def _profiles(self) -> Path:
        return self.directory / "clients.toml"

    @property
    def _profile(self) -> dict[str, Any]:
        return load_profile(PROFILE, self._profiles).config()


def prove_secure(project: Project, plan: StackPlan, active_controller: Callable[[str], str]) -> SecureReport:
    """Raises ProofError where somebody gets in who should not, or where a client is disturbed."""
    report = SecureReport()
    report.ready_s = round(project.up(_UP_S), 1)
    report.healthy = sum(each.health == "healthy" for each in project.containers().values())
    say(f"{report.healthy} services healthy after {report.ready_s} s")
    if report.healthy != 1 + len(plan.services()):
        raise ProofError(f"not all are healthy: {project.describe()}")
    check_published(project, plan)
    with unpacked(project) as former:
        log_in(project, former, report)
        be_refused(former, report)
        be_authorized(former, report)
        ports = open_ports(project, plan)
        shown = try_as_a_stranger(ports)
        report.silent_ports = sum(map(len, ports.values()))
        say(f"{report.silent_ports} ports say nothing to a container without a certificate or the token: {ports}")
        report.tried_with_keys = try_with_keys(plan)
        report.refused_by_etcd = try_etcd(plan)
        check_keys_are_private()
        project.run("certificates", "rotate", "--authority")
        with unpacked(project) as host:
            traffic = Traffic(TOPIC, host.access, _RATE)
            try:
                with traffic:
                    traffic.wait_for_more(_MORE)
                    rotate(project, ports, shown | {ETCD: etcd_fingerprint()}, report)
                    traffic.wait_for_more(_MORE)
                    survive_kills(project, host, traffic, report, active_controller)
                    traffic.wait_for_share(1.0)
            finally:
                report.client_errors, report.read = len(traffic.errors), traffic.read
            if traffic.errors:
                raise ProofError(f"clients saw errors: {'; '.join(traffic.errors[:5])}")
            say(f"both consumers have seen everything, no client saw an error ({traffic.read} records read)")
            what = "a client of a retired authority"
            report.refused[what] = _refusal(what, lambda: _list_topics(former, {}))
            restart(project, host, report)
            report.loaded = load(project, host.access, TOPIC)
            report.spark = spark(project, host.access, TOPIC)
    return report


def check_published(project: Project, plan: StackPlan) -> None:
    """Raise ProofError if more is open on the host than clients and operators need, or elsewhere than on loopback."""
    published = {name: dict(c.ports) for name, c in project.containers().items() if c.ports}
    wanted = {
        each.name: {f"{port}/tcp": ("127.0.0.1", str(port)) for port in (each.admin_port, each.kafka_port) if port}
        for each in plan.services()
    }
    if published != wanted:
        raise ProofError(f"published are {published}")


@contextmanager
def unpacked(project: Project) -> Iterator[Host]:
    """Do what the log of `certificates` tells a user on the host."""
    told = project.log("certificates")
    if "run --rm -T certificates client | tar -x" not in told or f"OTTLA_PROFILE={PROFILE}" not in told:
        raise ProofError(f"`certificates` does not say what a client needs: {told}")
    with tempfile.TemporaryDirectory(prefix="ottla-secure-") as folder:
        packed = project.run("certificates", "client").encode()
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield Host(Path(folder) / ARCHIVE)


def log_in(project: Project, host: Host, report: SecureReport) -> None:
    """Log in by every client, on the host and inside."""
    with host.admin() as admin:
        admin.topics.create(TOPIC, partitions=6)
    report.clients.append("SDK")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"):
        settings = host.librdkafka | {"sasl.mechanism": mechanism}
        _expect(TOPIC in AdminClient(settings).list_topics(timeout=_REFUSED_S).topics, f"confluent by {mechanism}")
        report.clients.append(f"confluent {mechanism}")
    if shutil.which("kcat") is None:
        install("kcat")
    listed = json.loads(run(["sh", "-c", f"cd {host.directory.parent} && kcat -F {ARCHIVE}/kcat.conf -L -J"]))
    _expect(TOPIC in {topic["topic"] for topic in listed["topics"]}, "kcat")
    report.clients.append("kcat")
    _expect(TOPIC in run([*host.access.ottla, "topic", "ls", "-o", "name"]).split(), "the command line on the host")
    run([*host.access.ottla, "doctor"])
    _expect(TOPIC in project.run("cli", "topic", "ls", "-o", "name").split(), "the command line inside")
    project.run("cli", "doctor")
    report.clients += ["command line", "command line inside"]
    say(f"logged in: {', '.join(report.clients)}")


def be_refused(host: Host, report: SecureReport) -> None:
    """Fail to log in, in every way that there is."""
    in_plaintext = {"ssl_truststore_location": None}
    nobody = {"sasl_mechanism": None, "sasl_username": None, "sasl_password": None}
    tries: dict[str, dict[str, object]] = {
        "TLS without a login": {**nobody, "security_protocol": "SSL"},
        "plaintext": {**nobody, **in_plaintext, "security_protocol": "PLAINTEXT"},
        "a login in plaintext": {**in_plaintext, "security_protocol": "SASL_PLAINTEXT"},
        "a wrong password": {"sasl_password": "wrong"},
        "an unknown user": {"sasl_username": "nobody"},
        "authorities of the system": {"ssl_truststore_location": None},
    }
    for what, instead in tries.items():
        report.refused[what] = _refusal(what, lambda instead=instead: _list_topics(host, instead))
    report.refused["confluent with a wrong password"] = _refusal_of_librdkafka(host)
    say(f"refused: {report.refused}")


def _list_topics(host: Host, instead: dict[str, object]) -> None:
    with host.admin(**instead) as admin:
        admin.topics.list()


def _refusal_of_librdkafka(host: Host) -> str:
    """Return the error that librdkafka reports for a wrong password. The call itself only fails after its timeout."""
    reported: list[str] = []
    settings = host.librdkafka | {"sasl.password": "wrong", "error_cb": lambda error: reported.append(error.name())}
    client = AdminClient(settings)
    give_up_at = time.monotonic() + _REFUSED_S
    while _AUTHENTICATION not in reported:
        if time.monotonic() > give_up_at:
            raise ProofError(f"confluent reports {reported} for a wrong password")
        client.poll(0.1)
    return _AUTHENTICATION


def be_authorized(host: Host, report: SecureReport) -> None:
    """Create a user, who may do nothing until an ACL allows it."""
    command = " ".join(host.access.ottla)
    run(["sh", "-c", f"echo {_PASSWORD} | {command} user add {USER} --password-stdin"])
    with host.admin() as admin:
        admin.topics.create(TOPIC_OF_USER, partitions=1)
    report.refused["a user without an ACL"] = _refusal("a user without an ACL", lambda: _produce(host))
    run([*host.access.ottla, "acl", "add", USER, "produce", f"topic:{TOPIC_OF_USER}"])
    _produce(host)
    say(f"{USER} may do nothing ({report.refused['a user without an ACL']}), and produces once an ACL allows it")


def _produce(host: Host) -> None:
    config = {**host.config, "sasl.username": USER, "sasl.password": _PASSWORD}
    with ottla.Producer(host.bootstrap, topic=TOPIC_OF_USER, config=config) as producer:
        producer.send("by a user with an ACL").result(_REFUSED_S)


def survive_kills(
    project: Project, host: Host, traffic: Traffic, report: SecureReport, active_controller: Callable[[str], str]
) -> None:
    """A broker dies and comes back by `up`. The active controller crashes and comes back by the restart policy."""
    project.kill(KILLED_BROKER)
    report.killed.append(KILLED_BROKER)
    traffic.wait_for_more(_MORE)
    say(f"{KILLED_BROKER} killed; clients went on; all healthy again {project.up(_UP_S):.1f} s later, by `up`")
    token = project.python("certificates", "print(open('/var/lib/ottla/security/admin.token').read())").strip()
    controller = active_controller(token)
    project.crash(controller)
    report.killed.append(controller)
    with host.admin() as admin:
        admin.topics.create(TOPIC_AFTER, partitions=1)
    wait_for(lambda: project.containers()[controller].restarts == 1, f"restart of {controller}", limit_s=30)
    seconds = wait_for(project.all_healthy, f"healthy stack after {controller} crashed", limit_s=_UP_S)
    say(f"{controller}, the active one, crashed; the other one has created a topic; all healthy {seconds:.1f} s later")


def rotate(project: Project, ports: Open, former: dict[str, str], report: SecureReport) -> None:
    """Go over to the new authority and retire the former one while clients go on. All know the new one, except etcd,
    which has to be started again. Every port has to show a new certificate."""
    project("restart", "etcd")
    wait_for(project.all_healthy, "healthy stack after etcd was started again", limit_s=_UP_S)
    started = {name: container.started for name, container in project.containers().items()}
    project.run("certificates", "rotate")

    def all_new() -> bool:
        shown = {**try_as_a_stranger(ports), ETCD: etcd_fingerprint()}
        return shown.keys() == former.keys() and all(shown[address] != former[address] for address in former)

    wait_for(all_new, "new certificate at every port", limit_s=_ROTATED_S)
    project.run("certificates", "rotate", "--retire")
    if started != {name: container.started for name, container in project.containers().items()}:
        raise ProofError("a service was started again because of its new certificate")
    report.rotated = len(former)
    say(f"{len(former)} ports show a certificate of a new authority; of the services, etcd alone was started again")


def restart(project: Project, host: Host, report: SecureReport) -> None:
    """Stop and start everything. The authority, the users and the records have to be those from before."""
    volumes = project.volumes()
    with unpacked(project) as before:
        project.down(volumes=False)
        say(f"down, and up again: healthy after {project.up(_UP_S):.1f} s")
        check_all_there(TOPIC, host.access)
        _expect(USER in run([*host.access.ottla, "user", "ls", "-o", "name"]).split(), f"the user {USER}")
        with unpacked(project) as after:
            for name in ("ca.pem", f"{ADMIN}.password"):
                _expect((after.directory / name).read_bytes() == (before.directory / name).read_bytes(), name)
    report.kept = project.volumes() == volumes
    _expect(report.kept, "the volumes")
    say("the authority, the users and the records are those from before")


def _refusal(what: str, attempt: Callable[[], None]) -> str:
    """Return the name of the error by which an attempt fails. Raises ProofError if it succeeds, or hangs."""
    try:
        attempt()
    except ottla.OttlaError as error:
        return type(error).__name__
    raise ProofError(f"{what} gets in")


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise ProofError(f"missing: {what}")
