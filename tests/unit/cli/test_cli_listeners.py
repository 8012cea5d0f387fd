"""`ottla doctor listeners`: each mistake of a listener, what is said of it and what to do. Addresses are made up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from cli_fakes import FakeAdmin, ottla

from ottla.admin.admin import Admin, BrokerInfo, ClusterInfo
from ottla.client.kafka_probe import Look, Met
from ottla.client.security.logins import OAuthBearer, Plain, Scram
from ottla.client.security.security import PLAINTEXT, Security
from ottla.client.security.tls import Tls
from ottla.errors import config_error
from ottla_cli.commands import doctor
from ottla_cli.listeners import ELSEWHERE, Finding, check_cluster, check_kafka, entries_of


class Network:
    """Who is at which address, seen from here; nobody at those that are not said. `dialled` are those looked at."""

    def __init__(self) -> None:
        self.at: dict[str, Look] = {}
        self.dialled: list[str] = []

    def put(self, met: Met, *addresses: str) -> None:
        self.at.update({a: Look(a, met) for a in addresses})

    def broker(self, id_: int, address: str, told: Mapping[int, str], cluster_id: str = "c1") -> None:
        self.at[address] = Look(address, Met.KAFKA, cluster_id, id_, dict(told), 1.25)

    def __call__(self, addresses: Iterable[str]) -> dict[str, Look]:
        asked = list(addresses)
        self.dialled += asked
        return {a: self.at.get(a, Look(a, Met.CONNECTION_REFUSED)) for a in asked}


EXTERNAL = {0: "localhost:9092", 1: "localhost:9093"}
INTERNAL = {0: "broker-0:19092", 1: "broker-1:19092"}


@pytest.fixture
def network() -> Network:
    """A cluster as in containers, seen from the host: one listener is for here, the other is not."""
    network = Network()
    for n, address in EXTERNAL.items():
        network.broker(n, address, EXTERNAL)
    network.put(Met.UNRESOLVED, *INTERNAL.values())
    return network


def info(*listeners: Mapping[str, str], cluster_id: str = "c1") -> ClusterInfo:
    """Broker n has those listeners."""
    brokers = tuple(
        BrokerInfo(n, f"localhost:{9650 + n}", next(iter(each.values()), ""), "", False, 7, each)
        for n, each in enumerate(listeners)
    )
    return ClusterInfo(cluster_id, 0, "localhost:9640", brokers)


BOTH = info(*({"EXTERNAL": EXTERNAL[n], "INTERNAL": INTERNAL[n]} for n in range(2)))
ONLY_EXTERNAL = info(*({"EXTERNAL": EXTERNAL[n]} for n in range(2)))


def bad(findings: list[Finding]) -> dict[tuple[int | None, str], str]:
    """What is to be mended: by broker and state, what and what to do."""
    return {(f.broker, f.state): "; ".join(f.problem) for f in findings if f.is_bad and f.problem}


def test_a_listener_for_clients_elsewhere_is_no_mistake(network: Network) -> None:
    findings = check_cluster(BOTH, ["localhost"], network)
    assert [(f.broker, f.listener, f.state) for f in findings] == [
        (0, "EXTERNAL", "ok"),
        (1, "EXTERNAL", "ok"),
        (0, "INTERNAL", ELSEWHERE),
        (1, "INTERNAL", ELSEWHERE),
    ]
    assert bad(findings) == {}


@pytest.mark.parametrize("login", [Plain("alice", "secret"), OAuthBearer(lambda: "token")])
def test_a_profile_with_tls_sends_no_password_and_no_token_in_plaintext(login: Plain | OAuthBearer) -> None:
    names = {"SASL_SSL": "a:1", "SASL_PLAINTEXT": "a:2"}
    entries = entries_of(info(names), "", Security(login, Tls()))
    assert entries == {"a:1": Security(login, Tls()), "a:2": PLAINTEXT}
    assert entries_of(info(names), "", Security(login))["a:2"] == Security(login), "the profile does it everywhere"


def test_doctor_does_not_wait_for_each_broker_that_describes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s: list[float] = []

    def unreached(*, broker: int, timeout: float) -> None:
        waited_s.append(timeout)
        raise config_error(f"broker {broker} can't be reached", hint="")

    clock = SimpleNamespace(monotonic=lambda: sum(waited_s))
    monkeypatch.setattr(doctor, "time", clock)
    admin = cast(Admin, SimpleNamespace(configs=SimpleNamespace(get=unreached)))
    assert doctor._protocol_map(admin, info(*[{"A": "a:1"}] * 50)) == ""
    assert 0 < sum(waited_s) <= 10


def test_each_listener_is_entered_by_its_own_protocol() -> None:
    names = {"SSL": "a:1", "SASL_SSL": "a:2", "PLAINTEXT": "a:3", "LAN": "a:4", "SASL_PLAINTEXT": "a:5", "WAN": "a:6"}
    login, tls = Scram("alice", "secret"), Tls()
    assert entries_of(info(names), "LAN:SASL_PLAINTEXT, SSL:SSL", Security(login, tls)) == {
        "a:1": Security(None, tls),
        "a:2": Security(login, tls),
        "a:3": PLAINTEXT,
        "a:4": Security(login),
        "a:5": Security(login),
    }
    assert entries_of(info(names), "WAN:SSL", PLAINTEXT) == {
        "a:1": None,
        "a:2": None,
        "a:3": PLAINTEXT,
        "a:5": PLAINTEXT,
        "a:6": None,
    }


def test_nobody_listens_at_one_address(network: Network) -> None:
    network.put(Met.CONNECTION_REFUSED, EXTERNAL[1])
    assert bad(check_cluster(ONLY_EXTERNAL, ["localhost"], network)) == {
        (1, "refused"): "nothing listens at localhost:9093; start the broker, publish the port, or correct it; the "
        "broker's log says where it listens"
    }


def test_two_listeners_and_one_is_half_reached(network: Network) -> None:
    """Then neither is for elsewhere: clients here can't use the whole cluster by any."""
    network.put(Met.CONNECTION_REFUSED, EXTERNAL[1])
    assert set(bad(check_cluster(BOTH, ["localhost"], network))) == {
        (1, "refused"),
        (0, "unresolved"),
        (1, "unresolved"),
    }


def test_names_of_another_network_are_told_to_clients_here(network: Network) -> None:
    """The commonest mistake: the port answers, and tells names that only containers know."""
    told = {0: "broker-0:9092", 1: "broker-1:9093"}
    network.put(Met.UNRESOLVED, *told.values())
    for n, address in EXTERNAL.items():
        network.broker(n, address, told)
    words = "the name broker-0 can't be resolved here; advertise an address that clients here can reach, such as "
    findings = check_cluster(info(*({"PLAINTEXT": told[n]} for n in range(2))), ["localhost"], network)
    assert bad(findings)[0, "unresolved"] == words + "kafka_advertised=PLAINTEXT://localhost:9092"
    assert set(bad(findings)) == {(0, "unresolved"), (1, "unresolved")}
    assert bad(check_kafka(["localhost:9092"], network))[0, "unresolved"] == (words + "kafka_advertised=localhost:9092")


def test_a_listener_that_advertises_nothing_is_told_as_it_is_dialled(network: Network) -> None:
    """It has registered a name of its own network, and no client from here is ever told it."""
    registered = {0: "broker-0:9092", 1: "broker-1:9093"}
    network.put(Met.UNRESOLVED, *registered.values())
    findings = check_cluster(info(*({"PLAINTEXT": registered[n]} for n in range(2))), ["localhost"], network)
    assert [(f.address, f.state) for f in findings] == [("localhost:9092", "ok"), ("localhost:9093", "ok")]


def test_localhost_is_told_to_a_client_on_another_machine(network: Network) -> None:
    network.at.clear()
    network.broker(0, "db7.example:9092", EXTERNAL)
    words = "localhost is this machine, where nothing listens at localhost:9093; the broker is on db7.example; "
    words += "advertise an address that clients here can reach, such as kafka_advertised="
    assert bad(check_kafka(["db7.example:9092"], network))[1, "refused"] == words + "db7.example:9093"
    found = bad(check_cluster(ONLY_EXTERNAL, ["db7.example"], network))
    assert found[1, "refused"] == words + "EXTERNAL://db7.example:9093"


def test_localhost_leads_a_client_on_another_machine_to_its_own_cluster(network: Network) -> None:
    network.broker(0, "db7.example:9092", EXTERNAL, cluster_id="far")
    by_contract = check_cluster(replace(ONLY_EXTERNAL, cluster_id="far"), ["db7.example"], network)
    assert bad(by_contract)[0, "other-cluster"].endswith("kafka_advertised=EXTERNAL://db7.example:9092")
    assert bad(check_kafka(["db7.example:9092"], network))[0, "other-cluster"] == (
        "localhost:9092 is a broker of cluster c1, but this cluster is far; advertise an address that clients here "
        "can reach, such as kafka_advertised=db7.example:9092"
    )


def test_a_port_is_published_under_another_number(network: Network) -> None:
    network.at.clear()
    network.broker(0, "localhost:29092", {0: "localhost:9092"})
    assert bad(check_kafka(["localhost:29092"], network)) == {
        (
            0,
            "refused",
        ): "nothing listens at localhost:9092, but a broker does at localhost:29092: its port is "
        "published under another number; advertise an address that clients here can reach, such as "
        "kafka_advertised=localhost:29092"
    }


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (Met.GRPC, "localhost:9093 is a gRPC port, not a Kafka port; Kafka's port is 9092 if the gRPC port is 9650"),
        (Met.HTTP, "localhost:9093 is an HTTP port, not a Kafka port; Kafka's port is 9092"),
        (Met.TLS, "localhost:9093 requires TLS; use a --profile with TLS"),
        (
            Met.WARY,
            "localhost:9093 speaks Kafka's protocol but does not describe its cluster; it may require a login: use a",
        ),
        (Met.REJECTED, "the broker rejected the login; check the security settings in the profile"),
        (Met.MUTE, "localhost:9093 accepts connections but does not answer; the port is published to an address"),
        (
            Met.UNREACHED,
            "localhost:9093 can't be reached from here: it is on another network, or behind a firewall; adv",
        ),
    ],
)
def test_something_else_is_at_the_address(network: Network, met: Met, words: str) -> None:
    network.at[EXTERNAL[1]] = Look(EXTERNAL[1], met, why="the broker rejected the login")
    (said,) = bad(check_cluster(ONLY_EXTERNAL, ["localhost"], network)).values()
    assert said.startswith(words)


def test_a_wrong_port_is_wrong_for_clients_elsewhere_too(network: Network) -> None:
    network.put(Met.GRPC, *INTERNAL.values())
    assert set(bad(check_cluster(BOTH, ["localhost"], network))) == {(0, "grpc"), (1, "grpc")}


def test_two_brokers_ports_are_exchanged(network: Network) -> None:
    for n, address in EXTERNAL.items():
        network.broker(1 - n, address, EXTERNAL)
    found = bad(check_cluster(ONLY_EXTERNAL, ["localhost"], network))
    assert found[0, "other-broker"] == (
        "broker 1 answers at localhost:9092; the ports of two brokers are swapped, in kafka_advertised or where they "
        "are published"
    )


@pytest.mark.parametrize("by_kafka", [True, False])
def test_two_brokers_are_told_under_one_address(network: Network, by_kafka: bool) -> None:
    same = dict.fromkeys(range(2), "localhost:9092")
    network.broker(0, "localhost:9092", same)
    found = bad(
        check_kafka(["localhost:9092"], network)
        if by_kafka
        else check_cluster(info(*({"PLAINTEXT": same[n]} for n in range(2))), ["localhost"], network)
    )
    assert found[1, "other-broker"].startswith("broker 1 and broker 0 are both advertised as localhost:9092; advertise")


def test_a_broker_without_that_listener_and_one_without_any(network: Network) -> None:
    cluster = info({"EXTERNAL": EXTERNAL[0], "LAN": "localhost:9092"}, {"EXTERNAL": EXTERNAL[1]}, {})
    found = bad(check_cluster(cluster, ["localhost"], network))
    assert found == {
        (1, "missing"): "it has no listener LAN: clients of that listener can't reach the partitions that this broker "
        "leads; configure one with kafka_listeners and kafka_advertised",
        (2, "missing"): "it serves no Kafka listener; start a release that does",
    }


def test_a_broker_of_an_older_release_is_told_by_its_only_address(network: Network) -> None:
    old = BrokerInfo(1, "localhost:9651", EXTERNAL[1], "", False, 7)
    cluster = info({"EXTERNAL": EXTERNAL[0]})
    mixed = ClusterInfo("c1", 0, "", (*cluster.brokers, old))
    assert [(f.listener, f.state) for f in check_cluster(mixed, [], network)] == [("EXTERNAL", "ok")] * 2
    assert [(f.listener, f.state) for f in check_cluster(ClusterInfo("c1", 0, "", (old,)), [], network)] == [
        ("PLAINTEXT", "ok")
    ]


# ---- by a Kafka address alone ---------------------------------------------------------------------------------------


def test_every_told_address_is_dialled(network: Network) -> None:
    findings = check_kafka(["localhost:9093"], network)
    assert [(f.broker, f.address, f.state) for f in findings] == [(0, EXTERNAL[0], "ok"), (1, EXTERNAL[1], "ok")]


def test_one_of_two_addresses_to_come_by_is_wrong(network: Network) -> None:
    network.put(Met.GRPC, "localhost:9650")
    findings = check_kafka(["localhost:9650", "localhost:9092"], network)
    assert bad(findings) == {
        (None, "grpc"): "localhost:9650 is a gRPC port, not a Kafka port; Kafka's port is 9092 if the gRPC port is "
        "9650, or 9093 if it is 9651; pass the address of a broker's Kafka listener"
    }
    assert len(findings) == 3


def test_a_cluster_that_is_not_there(network: Network) -> None:
    network.at.clear()
    assert set(bad(check_kafka(["localhost:9092"], network))) == {(None, "refused")}
    network.broker(0, "localhost:9092", {})
    assert bad(check_kafka(["localhost:9092"], network))[None, "no-brokers"].startswith(
        "localhost:9092 reports no brokers"
    )


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdmin()
    fake.brokers = dict(enumerate(BOTH.brokers))
    monkeypatch.setattr(doctor, "open_admin", lambda settings: fake)
    monkeypatch.setattr(doctor, "look_at_all", lambda addresses, limit_s, entries: network(addresses))


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("line", ["doctor", "-b localhost:9650 doctor", "doctor -b localhost:9650", "doctor listeners"])
def test_doctor_alone_looks_at_the_listeners(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"{line} -o json" if line != "doctor" else "-o json doctor") == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["kind"] == "listener-checks/v1"
    assert told["items"][0] == {
        "broker": 0,
        "listener": "EXTERNAL",
        "address": "localhost:9092",
        "state": "ok",
        "took_ms": 1.2,
        "problem": None,
        "hint": None,
    }
    assert printed.err.splitlines() == [
        "ottla: broker 0, listener INTERNAL: the name broker-0 can't be resolved here",
        "ottla: broker 1, listener INTERNAL: the name broker-1 can't be resolved here",
        "checked 4 listeners: none wrong for clients on this machine",
    ]


@pytest.mark.story("doctor-takes-any-broker-of-apache-kafka-for-a-swapped-one")
def test_brokers_of_apache_kafka_do_not_say_which_one_they_are(
    network: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name any broker as the controller, so what they say of it is no sign of swapped ports."""
    for address in EXTERNAL.values():
        network.broker(0, address, EXTERNAL)
    fake = FakeAdmin()
    fake.brokers = {n: BrokerInfo(n, EXTERNAL[n], EXTERNAL[n], "", False) for n in EXTERNAL}
    monkeypatch.setattr(doctor, "open_admin", lambda settings: fake)
    monkeypatch.setattr(doctor, "look_at_all", lambda addresses, limit_s, entries: network(addresses))
    assert ottla("doctor -b localhost:9093 -o json") == 0
    found = json.loads(capsys.readouterr().out)["items"]
    assert [(each["broker"], each["listener"], each["state"]) for each in found] == [(0, None, "ok"), (1, None, "ok")]


@pytest.mark.usefixtures("command")
def test_a_mistake_is_code_1_with_what_to_do(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    network.put(Met.MUTE, EXTERNAL[1])
    assert ottla("doctor localhost:9092 -o jsonl") == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "ottla: broker 1: localhost:9093 accepts connections but does not answer; the port is published"
    )
    assert said.endswith("\nchecked 2 listeners: 1 wrong for clients on this machine\n")


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("address", ["localhost:kafka", "localhost:0", ":9092", "http://localhost:9092"])
def test_what_is_no_address_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"doctor {address}") == 2
    assert f"'{address}' is not an address: " in capsys.readouterr().err


def test_the_other_commands_of_doctor_are_still_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("doctor --help") == 0
    assert {"listeners", "replicas"} <= set(capsys.readouterr().out.split())
    assert ottla("doctor replica") == 2
