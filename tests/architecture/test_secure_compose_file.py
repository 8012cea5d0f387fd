"""docker-compose.secure.yml leaves nothing of docker-compose.yml open, and agrees with the tables that it repeats.

Both files are read as text, as in test_compose_file.py. `make compose PROFILE=secure` shows that Docker takes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.errors import OttlaError
from ottla_core.process import service_config
from ottla_core.process.run import check_settings
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config import MirrorConfig
from ottla_stack.container_keys import ContainerKeys
from ottla_stack.container_users import INSIDE
from ottla_stack.etcd_users import NAMES
from ottla_stack.plan import StackPlan
from ottla_stack.secure_files import SecureFiles
from ottla_txn_coordinator.config import TxnCoordinatorConfig

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
SECURE = (ROOT / "docker-compose.secure.yml").read_text()
PROMETHEUS = (ROOT / "deploy/prometheus.yml").read_text()
SECURE_PROMETHEUS = (ROOT / "deploy/prometheus-secure.yml").read_text()
SERVICES = [plan.name for plan in StackPlan(ROOT, controllers=2, brokers=3).services()]
BROKERS = [name for name in SERVICES if name.startswith("broker")]
CONFIGS: dict[str, type[Any]] = {
    "broker": BrokerConfig,
    "controller": ControllerConfig,
    "group-coordinator": GroupCoordinatorConfig,
    "mirror": MirrorConfig,
    "txn-coordinator": TxnCoordinatorConfig,
}
KEYS = "/run/ottla"


def services(text: str) -> dict[str, str]:
    """Return the text of each service by its name."""
    part = re.search(r"^services:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert part is not None
    found = re.findall(r"^  ([\w-]+):.*\n((?:    .*\n|\n|  #.*\n)+)", part[1], re.MULTILINE)
    return dict(found)


def environment(service: str, text: str) -> dict[str, str]:
    """Return the environment that a file gives to a service, with what it refers to."""
    found = re.search(r"^    environment:(.*)\n((?:      .*\n)*)", services(text).get(service, ""), re.MULTILINE)
    if found is None:
        return {}
    shared = [_anchored(name, text) for name in re.findall(r"^ *(?:<<: )?\*(\S+)$", f"{found[1]}\n{found[2]}", re.M)]
    pairs = re.findall(r"^ +(\w+): (.+)$", "".join([*shared, found[2]]), re.MULTILINE)
    return {name: _value(value, text) for name, value in pairs}


def _anchored(name: str, text: str) -> str:
    found = re.search(rf"^\S+: &{name}\n((?:  .*\n)+)", text, re.MULTILINE)
    assert found is not None, name
    return found[1]


def _value(value: str, text: str) -> str:
    value = value.partition("  #")[0].strip()
    if value.startswith("*"):
        (value,) = re.findall(rf"&{value[1:]} (\S+)$", text, re.MULTILINE)
    return value.strip('"')


def volumes(service: str, text: str) -> dict[str, str]:
    """Return where each volume is, by its name. Only volumes with a name count, and no files."""
    return dict(re.findall(r"^      - ([\w-]+):(/[^:\n]+)", services(text).get(service, ""), re.MULTILINE))


def settings_of(service: str) -> Any:
    """Return the settings of a service that both files give it. Raises OttlaError if there is no such setting."""
    kind = re.sub(r"^west-|-\d+$", "", service)
    environ: Mapping[str, str] = environment(service, COMPOSE) | environment(service, SECURE)
    return service_config.load(CONFIGS[kind], kind, [], environ)


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are in containers only."""
    monkeypatch.setattr(EtcdSecurity, "check_files", lambda security: None)


INSECURE = [name for name in services(COMPOSE) if any("INSECURE" in key for key in environment(name, COMPOSE))]


def test_every_service_that_is_open_otherwise_is_known_here() -> None:
    assert set(SERVICES) < set(INSECURE)
    assert len(INSECURE) == len(SERVICES) + 5, "the second cluster's four, and the mirror"
    assert SECURE.count("INSECURE") == len({re.sub(r"-\d+$", "", name) for name in INSECURE})


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_listens_on_the_network_without_the_setting_insecure(service: str) -> None:
    settings = settings_of(service)
    check_settings(settings)
    assert (settings.insecure, settings.host, settings.admin_host) == (False, "0.0.0.0", "0.0.0.0")
    assert all(address.startswith("https://") for address in settings.etcd)


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("service", sorted({*INSECURE} - {*SERVICES}))
def test_what_this_file_does_not_secure_refuses_to_start(service: str) -> None:
    with pytest.raises(OttlaError, match="which is not loopback"):
        check_settings(settings_of(service))


@pytest.mark.parametrize("broker", BROKERS)
def test_both_sides_of_a_broker_have_tls_and_a_login_and_an_authorizer(broker: str) -> None:
    settings = settings_of(broker)
    assert {each.protocol for each in settings.kafka} == {"SASL_SSL"}
    assert len(settings.kafka) == 2
    assert settings.authorizer is not None
    assert not settings.allow_everyone_if_no_acl_found


def test_a_container_has_its_own_keys_alone_and_can_not_write_them() -> None:
    made = volumes("certificates", SECURE)
    mounted = {name: volumes(name, SECURE) for name in services(SECURE) if name != "certificates"}
    readers = {keys: [name for name, has in mounted.items() if keys in has] for keys in made}
    assert readers.pop("authorities") == []
    spark = ["spark-job", "spark-master", "spark-worker-0", "spark-worker-1"]
    assert {keys: sorted(names) for keys, names in readers.items()} == {
        **{f"{name}-keys": [name] for name in (*SERVICES, "etcd", "etcd-users", "prometheus", "redis")},
        "client-keys": ["cli", "client-users"],
        "load-keys": ["client-users", "load"],
        "spark-keys": ["client-users", *spark],
    }
    assert all(made[keys] == f"{KEYS}/{keys.removesuffix('-keys')}" for keys in readers)
    of_readers = re.findall(
        r"^      - ([\w-]+-keys):\S+?(:ro)?$", SECURE.replace(services(SECURE)["certificates"], ""), re.M
    )
    assert {keys for keys, _ in of_readers} == readers.keys()
    assert all(read_only for _, read_only in of_readers)


@pytest.mark.parametrize("service", ["etcd", *BROKERS])
def test_secured_data_has_a_volume_that_the_open_stack_does_not_open(service: str) -> None:
    open_, secured = volumes(service, COMPOSE), volumes(service, SECURE)
    (place,) = open_.values()
    assert [name for name, at in secured.items() if at == place] == [f"secure-{service}"]
    assert f"secure-{service}" not in COMPOSE


def test_every_file_that_is_named_is_handed_out_there(tmp_path: Path) -> None:
    made = [place.removeprefix(f"{KEYS}/") for name, place in volumes("certificates", SECURE).items() if "keys" in name]
    for name in made:
        (tmp_path / "run" / name).mkdir(parents=True)
    addresses = environment("certificates", SECURE)
    inside, outside = addresses["BOOTSTRAP_INSIDE"], addresses["BOOTSTRAP_OUTSIDE"]
    keys = ContainerKeys(SecureFiles(tmp_path / "security"), tmp_path / "run", inside, outside, lambda _: os.getgid())
    keys.make_missing()
    in_texts = {
        **{name: str(environment(name, SECURE)) for name in SERVICES},
        "etcd": services(SECURE)["etcd"],
        "etcd-users": str([f"{KEYS}/{name}" for name in ("etcd-ca.pem", "etcd-client.pem", "etcd-client.key", NAMES)]),
        "client": str(environment("cli", SECURE)),
        "load": str(environment("load", SECURE)),
        "spark": services(SECURE)["spark-job"] + str(environment("spark-job", SECURE)),
        "prometheus": SECURE_PROMETHEUS,
        "redis": services(SECURE)["redis"],
    }
    assert in_texts.keys() == set(made)
    for name, text in in_texts.items():
        named = set(re.findall(rf"{KEYS}/([\w.-]+)", text))
        assert named
        assert named <= keys.contents(name).keys(), name


@pytest.mark.usefixtures("without_files")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_starts_once_it_is_a_user_of_etcd_who_may_use_the_keys_of_its_cluster(service: str) -> None:
    assert "    depends_on: *after-etcd-users\n" in services(SECURE)[service]
    found = re.search(r"^    command: \[\*etcd-address, (\S+)\]", services(SECURE)["etcd-users"], re.MULTILINE)
    assert found is not None
    assert found[1] == settings_of(service).cluster_id


@pytest.mark.parametrize("client", ["load", "spark-job"])
def test_a_client_with_its_own_user_starts_once_the_user_exists(client: str) -> None:
    assert "    depends_on: *after-client-users\n" in services(SECURE)[client]
    assert environment(client, SECURE)["OTTLA_PROFILE"] == INSIDE


@pytest.mark.parametrize("service", ["spark-master", "spark-worker-0", "spark-worker-1", "spark-job"])
def test_each_of_spark_s_processes_asks_the_others_for_the_secret(service: str) -> None:
    assert re.search(r"--properties-file\s(?:      - )?/run/ottla/spark.conf", services(SECURE)[service])


@pytest.mark.parametrize("service", ["spark-master", "spark-worker-0", "spark-worker-1"])
def test_a_web_page_of_spark_is_on_loopback_of_its_container(service: str) -> None:
    """The pages need no login. The processes reach each other by the address in --host."""
    assert environment(service, SECURE)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert f" --host {service} " in services(SECURE)[service]
    assert "--webui" not in services(SECURE)[service]


def test_redis_takes_its_password_from_its_keys() -> None:
    text = services(SECURE)["redis"]
    assert re.search(r"^    command: \[/run/ottla/redis.conf, (?!.*(protected-mode|requirepass))", text, re.MULTILINE)
    assert "      certificates:\n        condition: service_completed_successfully\n" in text
    assert "requirepass" not in COMPOSE + SECURE + (ROOT / "Dockerfile").read_text()


def test_a_published_service_is_secured_or_refuses_to_start_except_prometheus() -> None:
    """Prometheus has no login of its own, so its port is only for this host."""
    published = {name for name, text in services(COMPOSE).items() if "    ports:\n" in text}
    assert published == {*SERVICES, "mirror", "west-broker", "prometheus"}
    assert published - {"prometheus"} <= {*INSECURE}
    assert re.findall(r'"(\S+:)9090:9090"', COMPOSE) == ["127.0.0.1:"]
    assert "ports:" not in SECURE


def test_clients_get_the_addresses_that_brokers_advertise() -> None:
    advertised = [settings_of(broker).kafka for broker in BROKERS]
    by_side = {
        side: ",".join(f"{each.advertised.host}:{each.advertised.port}" for each in _of(side, advertised))
        for side in ("INTERNAL", "EXTERNAL")
    }
    addresses = environment("certificates", SECURE)
    assert by_side == {"INTERNAL": addresses["BOOTSTRAP_INSIDE"], "EXTERNAL": addresses["BOOTSTRAP_OUTSIDE"]}


def _of(side: str, listeners: list[Any]) -> list[Any]:
    return [each for of_broker in listeners for each in of_broker if each.name == side]


def test_etcd_has_its_flags_of_the_open_stack_besides_those_for_clients() -> None:
    plain, secured = (set(re.findall(r"^      - (--\S+)", services(text)["etcd"], re.M)) for text in (COMPOSE, SECURE))
    assert {flag.partition("=")[0] for flag in plain - secured} == {"--listen-client-urls", "--advertise-client-urls"}
    assert {"--client-cert-auth", "--enable-grpc-gateway=false"} < secured - plain
    assert not any("http://" in flag and "127.0.0.1" not in flag for flag in secured)


def test_prometheus_sends_its_token_to_every_service_of_the_stack() -> None:
    targets = set(re.findall(r'"([\w-]+:\d+)"', PROMETHEUS)) - {"etcd:2379", "mirror:9780"}
    assert set(re.findall(r'"([\w-]+:\d+)"', SECURE_PROMETHEUS)) == targets
    assert SECURE_PROMETHEUS.count("authorization: ") == SECURE_PROMETHEUS.count("job_name: ") == 4
    assert re.search(r"authorization: &token\n +credentials_file: /run/ottla/admin.token\n", SECURE_PROMETHEUS)


def test_the_container_of_the_authorities_is_on_no_network_and_has_no_capability() -> None:
    text = services(SECURE)["certificates"]
    assert "    network_mode: none\n" in text
    assert re.search(r"^    cap_drop:\n      - ALL\n", text, re.MULTILINE)
    assert "cap_add" not in SECURE
