"""`make compose`: docker-compose.yml proved on a real Docker Engine.

Build, up, healthy; records in and out from the host and from inside while a broker is killed and a controller crashes;
kcat from the host and a Kafka client from inside, each through all brokers by its own listener; a consumer group that
loses its coordinator and goes on, outside and inside; Locust from inside without a failure; memory; down and up again
with the data still there; down with the volumes. The last line is one JSON object. What is started here is ended here,
by its process or its project name. The default ports of the stack have to be free.

`--profile spark` is another proof, of that profile alone: the stack, a Spark master and two workers, and a job. So is
`--profile mirror`: a second cluster with a copy, in which a group goes on when the first one is lost.

`--profile secure` is a proof of docker-compose.secure.yml: who is let in, who is not, and what disturbs nobody. A
load test and a Spark job run there by logins of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.request import Request, urlopen

from tests.compose.base_image import ROOT, base_image
from tests.compose.consumer_group import GroupReport, use_a_group
from tests.compose.kafka_sides import use_from_both_sides
from tests.compose.project import Project
from tests.compose.second_site import PROFILE as MIRROR
from tests.compose.second_site import MirrorReport, lose_a_site
from tests.compose.secure_site import FILES as SECURE_FILES
from tests.compose.secure_site import PROFILES as SECURE_PROFILES
from tests.compose.secure_site import SecureReport, prove_secure
from tests.compose.spark_job import PROFILE as SPARK
from tests.compose.spark_job import SparkReport, run_a_job
from tests.compose.traffic import BOOTSTRAP, Traffic, check_all_there
from tests.hosts.engine import compose_command, docker_engine
from tests.hosts.shell import ProofError, say, wait_for

import ottla
from ottla_stack.plan import ServicePlan, StackPlan
from ottla_stack.supervisor import check_ports

PLAN: Final = StackPlan(ROOT, controllers=2, brokers=3)
TOPIC: Final = "proof"
TOPIC_AFTER: Final = "created-after-the-crash"
KILLED_BROKER: Final = "broker-1"
SECURE: Final = "secure"
READY_GOAL_S: Final = 15.0
MEMORY_GOAL_MB: Final = 700.0
_UP_LIMIT_S: Final = 90.0
_LOAD_SECONDS: Final = 15
_LOAD_USERS: Final = 11
_SCENARIOS: Final = 9
"""One of each scenario."""


@dataclass
class Report:
    services: int = 0
    healthy: int = 0
    ready_s: float = 0.0
    rss_mb: float = 0.0
    killed: list[str] = field(default_factory=list)
    client_errors: int = 0
    kcat_records: int = 0
    group: GroupReport = field(default_factory=GroupReport)
    load: dict[str, float] = field(default_factory=dict)
    volumes_kept: bool = False


def prove(project: Project, report: Report) -> None:
    say(f"images built in {project.build():.1f} s")
    check_ports(PLAN)
    start(project, report)
    ottla.Admin(BOOTSTRAP).topics.create(TOPIC, partitions=6)
    traffic = Traffic(TOPIC)
    try:
        with traffic:
            survive_kills(project, report, traffic)
    finally:
        report.client_errors = len(traffic.errors)
    if traffic.errors:
        raise ProofError(f"clients saw errors: {'; '.join(traffic.errors[:5])}")
    say(f"both consumers have seen everything, no client saw an error ({traffic.read} records read)")
    check_all_there(TOPIC)
    use_from_inside(project)
    report.kcat_records = use_from_both_sides(project)
    lose_a_coordinator(project, report)
    load_from_inside(project, report)
    report.rss_mb = round(project.resident_mb(), 1)
    say(f"{report.rss_mb} MB resident in all")
    restart_with_data(project, report)
    missed = [] if report.ready_s <= READY_GOAL_S else [f"ready after {report.ready_s} s, not {READY_GOAL_S:g}"]
    missed += [] if report.rss_mb <= MEMORY_GOAL_MB else [f"{report.rss_mb} MB resident, not {MEMORY_GOAL_MB:g}"]
    if missed:
        raise ProofError("; ".join(missed))


def prove_profile(project: Project, profile: str) -> SparkReport | MirrorReport | SecureReport:
    """What that profile adds to the stack."""
    built_s = project.build(SECURE_PROFILES if profile == SECURE else ("tools", profile))
    say(f"images built in {built_s:.1f} s")
    check_ports(PLAN)
    if profile == SECURE:
        return prove_secure(project, PLAN, active_controller)
    say(f"all healthy after {project.up(_UP_LIMIT_S):.1f} s")
    return run_a_job(project) if profile == SPARK else lose_a_site(project, BOOTSTRAP)


def start(project: Project, report: Report) -> None:
    report.services = 1 + len(PLAN.services())  # etcd, which publishes nothing
    report.ready_s = round(project.up(_UP_LIMIT_S), 1)
    containers = project.containers()
    report.healthy = sum(c.health == "healthy" for c in containers.values())
    say(f"{report.healthy} of {report.services} services healthy after {report.ready_s} s")
    published = {name: dict(c.ports) for name, c in containers.items() if c.ports}
    wanted = {s.name: {f"{p}/tcp": ("127.0.0.1", str(p)) for p in ports_of(s)} for s in PLAN.services()}
    if published != wanted or not report.healthy == report.services == len(containers):
        raise ProofError(f"not what ottla_stack.plan says: {project.describe()}, published {published}")


def ports_of(service: ServicePlan) -> list[int]:
    """What is open on the host: for clients, and for metrics."""
    return [p for p in (service.admin_port, service.kafka_port) if p]


def survive_kills(project: Project, report: Report, traffic: Traffic) -> None:
    """A broker dies and comes back by `up`; the active controller crashes and comes back by the restart policy."""
    traffic.wait_for_share(0.2)
    project.kill(KILLED_BROKER)
    report.killed.append(KILLED_BROKER)
    say(f"{KILLED_BROKER} killed: {project.describe()}")
    say(f"all healthy again {project.up(_UP_LIMIT_S):.1f} s later, by `up`")
    controller = active_controller()
    project.crash(controller)
    report.killed.append(controller)
    ottla.Admin(BOOTSTRAP).topics.create(TOPIC_AFTER, partitions=1)
    say(f"{controller}, the active one, crashed; the other one has created a topic")
    wait_for(lambda: project.containers()[controller].restarts == 1, f"restart of {controller}", limit_s=30)
    seconds = wait_for(project.all_healthy, f"healthy stack after {controller} crashed", limit_s=_UP_LIMIT_S)
    say(f"Docker restarted {controller}, all healthy again {seconds:.1f} s later")
    traffic.wait_for_share(1.0)


def active_controller(token: str = "") -> str:
    """By its metrics on the published admin port, which may want a token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for service in PLAN.services():
        if service.name.startswith("controller"):
            request = Request(f"http://127.0.0.1:{service.admin_port}/metrics", headers=headers)
            with urlopen(request, timeout=5) as answer:
                if re.search(r"^ottla_controller_active 1\.0$", answer.read().decode(), re.MULTILINE):
                    return service.name
    raise ProofError("no controller says that it is active")


def use_from_inside(project: Project) -> None:
    """Clients in containers are told other addresses than clients on the host: both must work."""
    listed = project.run("cli", "topic", "ls", "-o", "name").split()
    if set(listed) != {TOPIC, TOPIC_AFTER}:
        raise ProofError(f"from inside, `ottla topic ls` shows {listed}")
    say(f"from inside: topics {listed}")


def lose_a_coordinator(project: Project, report: Report) -> None:
    report.group = use_a_group(project, BOOTSTRAP)
    report.killed.append(report.group.killed)
    say(f"all healthy again {project.up(_UP_LIMIT_S):.1f} s later, by `up`")


def load_from_inside(project: Project, report: Report) -> None:
    """The profile `load`: every scenario of Locust for a short while. It ends with 1 by itself where a batch failed."""
    arguments = [f"--users={_LOAD_USERS}", f"--run-time={_LOAD_SECONDS}s", "--shape=ramp", "--result=-"]
    load = json.loads(project.run("load", *arguments).splitlines()[-1])
    report.load = {name: load[name] for name in ("requests", "failures", "records", "p99_ms")}
    done = {name: scenario["requests"] for name, scenario in load["scenarios"].items()}
    say(f"load of {_LOAD_SECONDS} s from inside: {report.load}; batches {done}")
    if load["failures"] or len(done) != _SCENARIOS:
        raise ProofError(f"{load['failures']} batches failed, in {len(done)} of {_SCENARIOS} scenarios")


def restart_with_data(project: Project, report: Report) -> None:
    before = project.volumes()
    project.down(volumes=False)
    if project.containers():
        raise ProofError(f"`down` leaves {project.describe()}")
    kept = project.volumes() == before
    say(f"down; volumes kept: {', '.join(before)}")
    say(f"up again, healthy after {project.up(_UP_LIMIT_S):.1f} s")
    check_all_there(TOPIC)
    report.volumes_kept = kept
    project.down(volumes=True)
    if project.volumes():
        raise ProofError(f"`down -v` leaves {project.volumes()}")
    if not kept:
        raise ProofError(f"`down` removed volumes: there were {before}")


@contextmanager
def ended(project: Project) -> Iterator[None]:
    """Nothing of the project is there before, and nothing afterwards, whatever happens."""
    project.down(volumes=True)
    try:
        yield
    except BaseException:
        project.tell_logs()
        raise
    finally:
        project.down(volumes=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compose", help="another compose command than `docker compose` or `docker-compose`")
    parser.add_argument("--base-image", help="another base than the Dockerfile's, or Debian where that can't be pulled")
    parser.add_argument(
        "--profile", choices=[SPARK, MIRROR, SECURE], help="prove this profile instead of all the others"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is ended
    # A shell ignores SIGINT for `make compose &`, and the clients that are started would ignore their Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report, proved = Report(), None
    failure = ""
    try:
        with docker_engine():
            compose = given.compose.split() if given.compose else compose_command()
            files = SECURE_FILES if given.profile == SECURE else ("docker-compose.yml",)
            project = Project(compose, given.base_image or base_image(), files)
            with ended(project):
                if given.profile:
                    proved = prove_profile(project, given.profile)
                else:
                    prove(project, report)
    except (ProofError, ottla.OttlaError) as error:
        failure = str(error)
        print(f"not proved: {failure}", file=sys.stderr)
    print(json.dumps(asdict(proved or report)))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
