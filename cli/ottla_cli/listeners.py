"""Whether Kafka clients can use a cluster from where this runs, and which setting is wrong if they can't. Pure.

A client dials one broker, gets the address of each (on the listener that it used), and dials those. So the cluster is
usable if every advertised address leads to the broker that advertises it. What was found at an address is a
`kafka_probe.Look`; `Looks` takes addresses and returns what was found at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.client.kafka_probe import Entry, Look, Met
from ottla.client.security.logins import Scram
from ottla.client.security.security import Security
from ottla_cli.failures import in_cli_terms
from ottla_cli.health import Problem
from ottla_core.host_port import HostPort

if TYPE_CHECKING:
    from ottla.admin.admin import BrokerInfo, ClusterInfo

Looks = Callable[[Iterable[str]], Mapping[str, Look]]

ELSEWHERE: Final = "elsewhere"
"""The state of a listener for clients of another network, if another listener makes the cluster usable from here."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ONLY_LISTENER: Final = "PLAINTEXT"
_AWAY: Final = frozenset({Met.UNRESOLVED.value, Met.UNREACHED.value, Met.CONNECTION_REFUSED.value})
_KAFKA_PORTS: Final = "Kafka's port is 9092 if the gRPC port is 9650, or 9093 if it is 9651"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broker at one address. `broker` and `listener` are None if not known, `problem` is None if all is well."""

    address: str
    state: str
    broker: int | None = None
    listener: str | None = None
    problem: Problem | None = None
    took_ms: float | None = None

    @property
    def name(self) -> str:
        of = "" if self.broker is None else f"broker {self.broker}"
        return f"{of}, listener {self.listener}" if self.listener else of

    @property
    def is_bad(self) -> bool:
        return self.problem is not None and self.state != ELSEWHERE

    def item(self) -> dict[str, Any]:
        return {
            "broker": self.broker,
            "listener": self.listener,
            "address": self.address,
            "state": self.state,
            "took_ms": None if self.took_ms is None else round(self.took_ms, 1),
            "problem": self.problem.what if self.problem else None,
            "hint": self.problem.hint if self.problem else None,
        }


@dataclass(frozen=True, slots=True)
class Expected:
    """What a client relies on: each address of `brokers` (broker id → host:port) leads to that broker of that cluster.

    `entry` is the address that it bootstrapped from, "" if none; `named` is whether brokers report which one they are.
    """

    brokers: Mapping[int, str]
    cluster_id: str
    entry: str = ""
    listener: str | None = None
    named: bool = False

    def judge(self, looks: Mapping[str, Look]) -> list[Finding]:
        return [self._finding(broker, looks[address]) for broker, address in sorted(self.brokers.items())]

    def _finding(self, broker: int, look: Look) -> Finding:
        if look.met is not Met.KAFKA:
            return Finding(look.address, look.met.value, broker, self.listener, self._unmet(look))
        problem = self._another_cluster(look)
        if problem is not None:
            return Finding(look.address, "other-cluster", broker, self.listener, problem)
        problem = self._another_broker(broker, look)
        state = look.met.value if problem is None else "other-broker"
        return Finding(look.address, state, broker, self.listener, problem, look.took_ms)

    def _another_cluster(self, look: Look) -> Problem | None:
        if look.cluster_id == self.cluster_id:
            return None
        problem = f"{look.address} is a broker of cluster {look.cluster_id}, but this cluster is {self.cluster_id}"
        return Problem(problem, self._advertise(look.address))

    def _another_broker(self, broker: int, look: Look) -> Problem | None:
        if self.named and look.controller == broker:
            return None
        shared = [other for other, address in self.brokers.items() if address == look.address and other != broker]
        if shared:
            problem = f"broker {broker} and broker {shared[0]} are both advertised as {look.address}"
            return Problem(problem, "advertise a separate address for each broker, with kafka_advertised")
        if self.named:
            problem = f"broker {look.controller} answers at {look.address}"
            return Problem(
                problem, "the ports of two brokers are swapped, in kafka_advertised or where they are published"
            )
        return None

    def _unmet(self, look: Look) -> Problem:
        address, place = look.address, HostPort.parse(look.address)
        entry = HostPort.parse(self.entry) if self.entry else None
        if look.met is not Met.CONNECTION_REFUSED or entry is None:
            return unmet(look, self._advertise(address))
        if place.is_loopback and not entry.is_loopback:
            problem = f"{place.host} is this machine, where nothing listens at {address}; the broker is on {entry.host}"
            return Problem(problem, self._advertise(address))
        if place.host == entry.host and self.entry not in self.brokers.values():
            problem = (
                f"nothing listens at {address}, but a broker does at {self.entry}: "
                "its port is published under another number"
            )
            return Problem(problem, self._advertise(self.entry))
        return unmet(look, self._advertise(address))

    def _advertise(self, address: str) -> str:
        """Return the hint for an address that does not lead to its broker: what to set, as far as known."""
        host = HostPort.parse(self.entry).host if self.entry else "host"
        name = f"{self.listener}://" if self.listener else ""
        advertised = HostPort(host, HostPort.parse(address).port)
        return f"advertise an address that clients here can reach, such as kafka_advertised={name}{advertised}"


def unmet(look: Look, advertise: str) -> Problem:
    """Return why there is no Kafka broker at an address; `advertise` is the hint if the address is the wrong one."""
    address = look.address
    if look.met is Met.UNRESOLVED:
        return Problem(f"the name {HostPort.parse(address).host} can't be resolved here", advertise)
    if look.met is Met.UNREACHED:
        return Problem(
            f"{address} can't be reached from here: it is on another network, or behind a firewall", advertise
        )
    if look.met is Met.CONNECTION_REFUSED:
        hint = "start the broker, publish the port, or correct it; the broker's log says where it listens"
        return Problem(f"nothing listens at {address}", hint)
    if look.met is Met.GRPC:
        return Problem(f"{address} is a gRPC port, not a Kafka port", f"{_KAFKA_PORTS}; {advertise}")
    if look.met is Met.HTTP:
        return Problem(f"{address} is an HTTP port, not a Kafka port", f"{_KAFKA_PORTS}; {advertise}")
    if look.met is Met.TLS:
        return Problem(f"{address} requires TLS", "use a --profile with TLS")
    if look.met is Met.WARY:
        hint = "it may require a login: use a --profile that logs in; one with TLS sends no password without TLS"
        return Problem(f"{address} speaks Kafka's protocol but does not describe its cluster", hint)
    if look.met is Met.REJECTED:
        return Problem(in_cli_terms(look.why), "check the security settings in the profile, and the address")
    hint = (
        "the port is published to an address where no program listens, or another program uses it: "
        "check what listens there"
    )
    return Problem(f"{address} accepts connections but does not answer", hint)


# ---- a cluster that a broker has described -------------------------------------------------------------------------


def check_cluster(info: ClusterInfo, entry_hosts: Sequence[str], looks: Looks) -> list[Finding]:
    """Check every listener of every registered broker. `entry_hosts` are those that this client was given."""
    findings: list[Finding] = []
    seen = looks(a for name in listener_names(info) for a in _advertised(info, name).values())
    for name in listener_names(info):
        brokers = _advertised(info, name)
        expected = Expected(brokers, info.cluster_id, listener=name, named=True)
        if not any(_is_of(seen[address], info.cluster_id) for address in brokers.values()):
            expected, seen = _by_another_host(expected, entry_hosts, looks, seen)
        findings += expected.judge(seen)
        findings += [
            _without(broker, name) for broker in info.brokers if broker.id not in brokers and broker.kafka_address
        ]
    findings += [_unserved(broker) for broker in info.brokers if not broker.kafka_address]
    return _set_apart(findings)


def entries_of(info: ClusterInfo, protocol_map: str, own: Security) -> dict[str, Entry]:
    """Return how a client with these settings enters each listener, by its address.

    `protocol_map` is a broker's listener.security.protocol.map. A listener that is not in it has the protocol of its
    name, if there is such a protocol. Settings with TLS send no password and no token to a listener without TLS.
    """
    protocols = {**{name: name for name in _PROTOCOLS}, **dict(_pairs(protocol_map))}
    return {
        address: _entry(protocols[name], own)
        for broker in info.brokers
        for name, address in broker.kafka_listeners.items()
        if protocols.get(name) in _PROTOCOLS
    }


def _pairs(protocol_map: str) -> Iterator[tuple[str, str]]:
    for each in protocol_map.split(","):
        name, colon, protocol = each.strip().partition(":")
        if colon:
            yield name, protocol


def _entry(protocol: str, own: Security) -> Entry:
    has_tls, has_login = protocol.endswith("SSL"), protocol.startswith("SASL_")
    if has_tls and own.tls is None:
        return None
    # Without TLS, a password or a token can be read on the way and at whatever listens there. SCRAM sends neither.
    is_safe = has_tls or own.tls is None or isinstance(own.login, Scram)
    return Security(own.login if has_login and is_safe else None, own.tls if has_tls else None)


def _is_of(look: Look, cluster_id: str) -> bool:
    return look.met is Met.KAFKA and look.cluster_id == cluster_id


def listener_names(info: ClusterInfo) -> list[str]:
    return sorted({name for broker in info.brokers for name in broker.kafka_listeners}) or [_ONLY_LISTENER]


def reports_listeners(info: ClusterInfo) -> bool:
    """Return whether brokers report all their listeners. Those of Apache Kafka report only the one that was dialled."""
    return any(broker.kafka_listeners for broker in info.brokers)


def _advertised(info: ClusterInfo, listener: str) -> dict[int, str]:
    """Addresses by broker. A broker of a release that had only one listener reports that, whatever the name."""
    brokers = {
        b.id: b.kafka_listeners.get(listener, "") if b.kafka_listeners else b.kafka_address for b in info.brokers
    }
    return {broker: address for broker, address in brokers.items() if address}


def _by_another_host(
    expected: Expected, hosts: Sequence[str], looks: Looks, seen: Mapping[str, Look]
) -> tuple[Expected, Mapping[str, Look]]:
    """Return what a client gets that bootstraps by one of `hosts`, which work from here, if a broker answers there."""
    ports = [HostPort.parse(address).port for address in expected.brokers.values()]
    tried = looks(str(HostPort(host, port)) for host in hosts for port in ports)
    for look in tried.values():
        if _is_of(look, expected.cluster_id):
            brokers = {broker: look.brokers.get(broker, address) for broker, address in expected.brokers.items()}
            return replace(expected, brokers=brokers, entry=look.address), {**seen, **looks(brokers.values())}
    return expected, seen


def _set_apart(findings: list[Finding]) -> list[Finding]:
    """If one listener leads to every broker, another that leads to none of them is for clients elsewhere."""
    names = {f.listener for f in findings if f.listener}
    whole = {name for name in names if not any(f.problem for f in findings if f.listener == name)}
    away = {name for name in names if all(f.state in _AWAY for f in findings if f.listener == name)}
    return [replace(f, state=ELSEWHERE) if whole and f.listener in away else f for f in findings]


def _without(broker: BrokerInfo, listener: str) -> Finding:
    text = f"it has no listener {listener}: clients of that listener can't reach the partitions that this broker leads"
    problem = Problem(text, "configure one with kafka_listeners and kafka_advertised")
    return Finding("", "missing", broker.id, listener, problem)


def _unserved(broker: BrokerInfo) -> Finding:
    return Finding("", "missing", broker.id, None, Problem("it serves no Kafka listener", "start a release that does"))


# ---- a cluster that is known by its addresses alone ------------------------------------------------------------------


def check_kafka(addresses: Sequence[str], looks: Looks) -> list[Finding]:
    """Check what clients find that bootstrap from these addresses, and dial each address that they get there."""
    entries = looks(addresses)
    findings: list[Finding] = []
    done = set()
    for entry, look in entries.items():
        brokers = (look.cluster_id, tuple(look.brokers.items()))
        if not look.brokers:
            state = "no-brokers" if look.met is Met.KAFKA else look.met.value
            findings.append(Finding(entry, state, problem=_at_entry(look)))
        elif brokers not in done:
            done.add(brokers)
            findings += Expected(look.brokers, look.cluster_id, entry).judge(
                {**entries, **looks(look.brokers.values())}
            )
    return findings


def _at_entry(look: Look) -> Problem:
    if look.met is Met.KAFKA:
        return Problem(f"{look.address} reports no brokers", "it has just started, or its cluster is not up yet")
    return unmet(look, "pass the address of a broker's Kafka listener")
