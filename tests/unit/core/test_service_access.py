"""The table of who may call what: it has every method, and says what the code and the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import PRINCIPAL, context_of, forwarding_metadata
from ottla_core.rpc.server import ContractError, RpcServer
from ottla_core.rpc.service_access import CALLERS, FORWARDERS, Caller
from ottla_core.security.principal import ANONYMOUS
from ottla_core.security.service_identity import Role, ServiceIdentity
from ottla_core.telemetry import Metrics
from ottla_proto import contracts
from ottla_proto.contracts import Broker, Controller, Method, Mirror

CONTRACTS: Final = [c for c in vars(contracts).values() if isinstance(getattr(c, "SERVICE", None), ServiceDescriptor)]
METHODS: Final = [m for c in CONTRACTS for m in vars(c).values() if isinstance(m, Method)]
ROW: Final = re.compile(r"^\| ([A-Z]\w+\.\w+) \| ([a-z, -]+) \|$", re.MULTILINE)
COORDINATORS: Final = {Role.GROUP_COORDINATOR, Role.TXN_COORDINATOR}


def test_every_method_of_every_contract_has_an_entry_and_no_other() -> None:
    assert sorted(CALLERS) == sorted(method.path for method in METHODS)
    assert all(CALLERS.values())


def test_the_roles_are_those_of_the_services_whose_code_calls_the_method() -> None:
    """`docs/design/boundaries.md` has these, and tests/architecture compares them with the code."""
    page = (Path(__file__).parents[3] / "docs/design/boundaries.md").read_text()
    callers = {method: by.split(", ") for method, by in ROW.findall(page)}
    for method in METHODS:
        expected: set[Role] = set()
        for caller in callers[f"{method.service}.{method.name}"]:
            expected |= COORDINATORS if caller == "coordinators" else set() if caller == "services" else {Role(caller)}
        if method is Controller.ALLOCATE_PRODUCER_IDS:
            expected |= {Role.BROKER, Role.TXN_COORDINATOR}  # all that have a ProducerIdManager
        if method.service == "Mirror":
            expected.add(Role.ADMIN)  # a MirrorClient, at the mirror's own port
        assert CALLERS[method.path] == expected, method.path


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.path)
@pytest.mark.parametrize("role", Role)
def test_a_method_is_open_to_its_roles_and_to_no_other(method: Method[Any, Any], role: Role) -> None:
    caller = Caller(ServiceIdentity(role, "1"))
    if role in CALLERS[method.path]:
        caller.check(method, CALLERS[method.path])
        return
    with pytest.raises(OttlaError) as refused:
        caller.check(method, CALLERS[method.path])
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    said = refused.value.message
    assert f"{method.service}.{method.name}" in said
    assert f"{role}/1" in said
    assert all(each in said for each in CALLERS[method.path])


def test_a_certificate_without_a_role_opens_nothing() -> None:
    with pytest.raises(
        OttlaError, match=r"Broker\.ReplicaFetch is for brokers, and the caller's certificate names no role"
    ):
        Caller(None).check(Broker.REPLICA_FETCH, CALLERS[Broker.REPLICA_FETCH.path])


def test_only_brokers_call_in_a_clients_name() -> None:
    assert {Role.BROKER} == FORWARDERS
    Caller(ServiceIdentity(Role.BROKER, "1"), forwards=True).check(Mirror.FAILOVER, CALLERS[Mirror.FAILOVER.path])
    with pytest.raises(OttlaError, match="in a client's name by admin/ops, and only brokers may do that"):
        Caller(ServiceIdentity(Role.ADMIN, "ops"), forwards=True).check(Mirror.FAILOVER, CALLERS[Mirror.FAILOVER.path])


async def test_a_service_with_a_method_that_has_no_entry_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Service:
        async def fetch(self, request: Any, context: Any) -> Any: ...

        replica_fetch = list_offsets = shard_append = check_fence = log_ends = write_txn_markers = fetch

    RpcServer("127.0.0.1", 0, Metrics()).add(Broker, Service())
    monkeypatch.delitem(CALLERS, Broker.LOG_ENDS.path)
    with pytest.raises(ContractError, match=r"no entry for Broker\.LogEnds"):
        RpcServer("127.0.0.1", 0, Metrics()).add(Broker, Service())


# ---- the principal of a call -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", ["User:alice", "User:CN=alice,O=ACME, L=Köln", "User:a\nb", "User:%41", "User:"])
def test_a_principal_arrives_as_it_was_sent(principal: str) -> None:
    sent = forwarding_metadata(principal)
    assert all(text.isascii() and text.isprintable() for _, text in sent)
    assert context_of(sent, "ipv4:127.0.0.1:1").principal == principal


def test_a_call_of_a_service_has_the_services_principal_and_one_for_a_client_has_the_clients() -> None:
    proven = {"peer_uri": [b"ottla://broker/1"]}
    own = context_of([], "ipv4:127.0.0.1:1", proven)
    assert (own.principal, own.caller) == ("Service:broker/1", Caller(ServiceIdentity(Role.BROKER, "1")))
    forwarded = context_of([(PRINCIPAL, "User:alice")], "ipv4:127.0.0.1:1", proven)
    assert forwarded.principal == "User:alice"
    assert forwarded.caller == Caller(ServiceIdentity(Role.BROKER, "1"), forwards=True)


def test_names_of_hosts_in_a_certificate_are_no_role() -> None:
    proven = {"x509_subject_alternative_name": [b"ottla://broker/1"], "peer_dns": [b"ottla://broker/1"]}
    assert context_of([], "ipv4:127.0.0.1:1", proven).caller == Caller(None)


def test_without_certificates_nobody_is_asked() -> None:
    context = context_of([], "ipv4:127.0.0.1:1")
    assert (context.principal, context.caller) == (ANONYMOUS, None)


@pytest.mark.parametrize(
    ("peer", "host"),
    [("ipv4:127.0.0.1:1", "127.0.0.1"), ("ipv6:%5B::1%5D:1", "::1"), ("ipv6:[fe80::1%25lo]:1", "fe80::1%lo")],
)
def test_the_host_of_a_caller_has_no_brackets(peer: str, host: str) -> None:
    assert context_of([], peer).client_host == host
