"""docker-compose.yml and deploy/ agree with the tables that they repeat: ports, settings, image targets, packages.

The file is read as text, since nothing else here needs a YAML parser; that Docker takes it is shown by `make compose`.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.errors import OttlaError
from ottla_core.process import lifecycle, service_config
from ottla_core.process.run import check_settings
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror import mirror_file
from ottla_mirror.config import MirrorConfig
from ottla_stack.plan import ServicePlan, StackPlan
from ottla_txn_coordinator.config import TxnCoordinatorConfig

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
PROMETHEUS = (ROOT / "deploy/prometheus.yml").read_text()
SERVICES = StackPlan(ROOT, controllers=2, brokers=3).services()
KNOWN: dict[str, Any] = {
    "BROKER": BrokerConfig,
    "CONTROLLER": ControllerConfig,
    "GROUP_COORDINATOR": GroupCoordinatorConfig,
    "MIRROR": MirrorConfig,
    "TXN_COORDINATOR": TxnCoordinatorConfig,
}
"""The settings of each service, by its name in the environment."""
PROMETHEUS_PORT = 9090
MIRROR_ADMIN_PORT = 9780
REDIS_PORT = 6379
WEST_PORT = 9096
"""The port of the second cluster's broker for clients on the host."""


def block(service: str) -> str:
    """The text of one service."""
    found = re.search(rf"^  {service}:\n((?:    .*\n)+)", COMPOSE.partition("\nservices:\n")[2], re.MULTILINE)
    assert found is not None, service
    return found[1]


@pytest.mark.parametrize("plan", SERVICES, ids=lambda plan: plan.name)
def test_a_service_has_the_ports_of_the_table_inside_outside_and_in_its_probe(plan: ServicePlan) -> None:
    text = block(plan.name)
    section = f"OTTLA_{plan.name.rpartition('-')[0].replace('-', '_').upper()}"
    for setting, value in [("PORT", plan.port), ("ADMIN_PORT", plan.admin_port), ("ADVERTISED_HOST", plan.name)]:
        assert f"{section}__{setting}: {value}\n" in text
    assert f'"ottla_core.process.health", "{plan.admin_port}"]' in text
    assert f'"{plan.name}:{plan.admin_port}"' in PROMETHEUS


def test_ports_are_published_on_loopback_under_their_own_numbers_and_nothing_else_is() -> None:
    published = re.findall(r'^      - "(\S+):(\d+):(\d+)"$', COMPOSE, re.MULTILINE)
    assert {host for host, _, _ in published} == {"127.0.0.1"}
    assert all(outside == inside for _, outside, inside in published)
    ports = [p for plan in SERVICES for p in (plan.admin_port, plan.kafka_port) if p]
    assert sorted(int(outside) for _, outside, _ in published) == sorted(
        [PROMETHEUS_PORT, MIRROR_ADMIN_PORT, WEST_PORT, *ports]
    )


@pytest.mark.parametrize("plan", [plan for plan in SERVICES if plan.kafka_port], ids=lambda plan: plan.name)
def test_a_broker_has_a_kafka_listener_for_each_side(plan: ServicePlan) -> None:
    given = dict(re.findall(r"OTTLA_BROKER__(KAFKA_\w+): (\S+)", block(plan.name)))
    listeners = service_config.load(
        BrokerConfig, "broker", [f"--{name.lower()}={text}" for name, text in given.items()]
    ).kafka
    assert {each.name: each.advertised for each in listeners} == {
        "EXTERNAL": ("localhost", plan.kafka_port),
        "INTERNAL": (plan.name, 19092),
    }
    assert all(each.bound == ("0.0.0.0", each.advertised and each.advertised.port) for each in listeners)


def test_every_setting_exists() -> None:
    given = re.findall(r"OTTLA_([A-Z_]+?)__(\w+)", COMPOSE)
    assert {section for section, _ in given} == KNOWN.keys()
    for section, setting in given:
        assert setting.lower() in {f.name for f in fields(KNOWN[section])}, setting


@pytest.mark.parametrize("service", re.findall(r"^  (\S+):\n(?:    .*\n)*?    environment:\n", COMPOSE, re.MULTILINE))
def test_a_service_would_start_with_its_settings_and_not_without_insecure(service: str) -> None:
    """Ports of a container can be published only if the service listens on all its addresses."""
    merged = re.findall(r"<<: \*(\S+-environment)\n", block(service))
    common = [re.findall(rf"^x-{name}: .*\n((?:  .*\n)+)", COMPOSE, re.MULTILINE)[0] for name in merged]
    lines = "".join((*common, block(service)))
    environ = {n: text.strip('"') for n, text in re.findall(r"^ +(OTTLA_\w+__\w+): (.*)$", lines, re.MULTILINE)}
    if not environ:
        return  # a client
    section = next(iter(environ)).removeprefix("OTTLA_").partition("__")[0]
    name, hosts = section.lower().replace("_", "-"), {f"OTTLA_{section}__{word}" for word in ("HOST", "ADMIN_HOST")}
    check_settings(service_config.load(KNOWN[section], name, [], environ))
    for host in hosts:
        alone = {n: text for n, text in environ.items() if n == host or n not in hosts}
        assert alone[host] == "0.0.0.0"
        with pytest.raises(OttlaError, match="is not loopback"):
            check_settings(service_config.load(KNOWN[section], name, ["--insecure=false"], alone))


def test_the_mirrors_file_names_what_runs_beside_it() -> None:
    settings = mirror_file.load(ROOT / "deploy/mirror.toml")
    for address in (address for cluster in settings.clusters for address in cluster.bootstrap):
        host, _, port = address.partition(":")
        assert f"INTERNAL://{host}:{port}\n" in block(host)
    assert settings.redis.reveal() == f"redis://redis:{REDIS_PORT}/0"


def test_redis_is_for_containers_alone_because_it_has_no_password() -> None:
    assert "--protected-mode" in block("redis")
    assert "ports:" not in block("redis")


def test_docker_kills_a_service_later_than_it_ends_by_its_own_limit() -> None:
    grace = re.search(r"^  stop_grace_period: (\d+)s$", COMPOSE, re.MULTILINE)
    assert grace is not None
    assert int(grace[1]) > lifecycle.STOP_LIMIT_S


def test_two_settings_pin_every_image_of_a_registry_by_its_digest() -> None:
    """Each of our images is built on BASE_IMAGE, whose default is the same everywhere."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) - set(stages) == {"${BASE_IMAGE}", "scratch"}
    (base,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    both = COMPOSE + (ROOT / "docker-compose.secure.yml").read_text()
    images = set(re.findall(r"^ +image: (\S+)$", both, re.MULTILINE))
    (foreign,) = {image for image in images if not image.startswith("ottla-")}
    assert foreign.startswith("${PROMETHEUS_IMAGE:-")
    assert set(re.findall(r"BASE_IMAGE: (\S+)$", both, re.MULTILINE)) == {f"${{BASE_IMAGE:-{base}}}"}
    assert len(re.findall(r"^ +BASE_IMAGE: ", both, re.MULTILINE)) == len(
        re.findall(r"^ +context: ", both, re.MULTILINE)
    )
    page = (ROOT / "docs/operate/protection.md").read_text()
    for setting, image in [("BASE_IMAGE", base), ("PROMETHEUS_IMAGE", foreign.partition(":-")[2].rstrip("}"))]:
        assert f"{setting}={image}@sha256:…\n" in page


def test_every_image_is_a_target_and_every_file_that_is_copied_reaches_the_build() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    targets = re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE)
    wanted = re.findall(r"^ +target: (\S+)$", COMPOSE, re.MULTILINE)
    assert set(wanted) == set(targets) - {"tools", "build", "build_load", "build_spark", "ground", "service"}
    let_in = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    packages = re.findall(r'^  "(\w+)/\S+",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(packages) >= 6
    assert set(packages) <= {path.partition("/")[0] for path in let_in}
    programs = "".join(path.read_text() for path in (ROOT / "loadtest/locust").glob("*.py"))
    assert {f"loadtest/{folder}" for folder in re.findall(r"^from loadtest\.(\w+)", programs, re.MULTILINE)} <= let_in
    (locustfile,) = re.findall(r"--locustfile=(\S+?)\"", dockerfile)
    assert (ROOT / locustfile).is_file()
