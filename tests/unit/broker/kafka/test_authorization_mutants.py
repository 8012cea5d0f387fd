"""A broken broker fails the cells of the APIs: each mutant makes one mistake that nobody would notice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest
from authorization_cells import CASES, CODES, KEYS, NO_CLUSTER, NO_TOPIC, READ_GROUP, Case, acls, asked, codes
from guarded import GuardedBroker, codes_of, request_of

from ottla_broker.kafka.access import Access, KeptDecisions, LimitedAccess
from ottla_broker.kafka.authorization import NEEDS
from ottla_broker.kafka.handlers import metadata
from ottla_core.security.acl import Permission
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.decision import Decision, Reason
from ottla_core.security.decisions import Decisions
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_ALLOWED = Decision(True, Reason.SUPER_USER)


class Mutant(NamedTuple):
    """A mistake, and the cell that notices it."""

    target: Any
    name: str
    broken: Callable[[Any], Any]
    cell: Callable[[], Coroutine[Any, Any, None]]


def _allow_before_deny(decide: Any) -> Any:
    def broken(self: Authorizer, principal: str, host: str, operation: Any, resource_type: Any, name: str) -> Any:
        for rules in self._rules_for(principal, host, resource_type):
            for acl in rules.that(Permission.ALLOW, operation):
                if acl.name == name:
                    return _ALLOWED
        return decide(self, principal, host, operation, resource_type, name)

    return broken


def _looks_first(names: Any) -> Any:
    def broken(image: Any, request: Any) -> Iterator[str]:
        return (name for name in names(image, request) if name in image.topics)

    return broken


def _never_again(of: Any) -> Any:
    def broken(self: Decisions, revision: int) -> Any:
        self._revision = revision
        return of(self, revision)

    return broken


def _first_principal(of: Any) -> Any:
    def broken(self: KeptDecisions, principal: str, host: str) -> Any:
        return of(self, principal, host) if self._decisions is None else self._decisions

    return broken


def _unchecked(check: Any) -> Any:
    def broken(self: Access, operation: Operation, *of: Any) -> None:
        if of[:1] != (ResourceType.GROUP,):
            check(self, operation, *of)

    return broken


def _any_is_some(allows_any: Any) -> Any:
    return lambda self, operation, resource_type: True


def _case(api: str) -> Case:
    return next(case for case in CASES if case.api == api)


async def _deny_beats_allow() -> None:
    case = _case("Heartbeat")
    deny = READ_GROUP.acl(Permission.DENY)
    assert await codes(case, *acls(case), deny) == {frozenset({CODES[ResourceType.GROUP]})}


async def _nothing_is_revealed() -> None:
    request = request_of("Metadata", 12, {"name": "new", "topic_id": bytes(16), "allow_auto_topic_creation": False})
    assert codes_of(await GuardedBroker().ask(request, 12)) == {NO_TOPIC}


async def _a_change_counts() -> None:
    broker, request = GuardedBroker(READ_GROUP.acl()), request_of("Heartbeat", 4, {})
    await broker.ask(request, 4)
    broker.grant()
    assert codes_of(await broker.ask(request, 4)) == {CODES[ResourceType.GROUP]}


async def _every_need_is_asked_for() -> None:
    assert await asked("Heartbeat") == NEEDS[KEYS["Heartbeat"]]


async def _who_may_write_nowhere_is_refused() -> None:
    case = next(case for case in CASES if case.code is NO_CLUSTER)
    assert await codes(case) == {frozenset({NO_CLUSTER})}


async def _two_principals() -> None:
    kept = KeptDecisions()
    assert kept.of("User:ANONYMOUS", "") is not kept.of("User:alice", "")


MUTANTS = {
    "allow before deny": Mutant(Authorizer, "decide", _allow_before_deny, _deny_beats_allow),
    "existence revealed": Mutant(metadata, "_names", _looks_first, _nothing_is_revealed),
    "cache not dropped": Mutant(Decisions, "_of", _never_again, _a_change_counts),
    "decisions of another principal": Mutant(KeptDecisions, "of", _first_principal, _two_principals),
    "an API without a check": Mutant(Access, "check", _unchecked, _every_need_is_asked_for),
    "everyone may write somewhere": Mutant(
        LimitedAccess, "allows_any", _any_is_some, _who_may_write_nowhere_is_refused
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, attribute, broken, cell = MUTANTS[name]
    await cell()
    monkeypatch.setattr(target, attribute, broken(getattr(target, attribute)))
    with pytest.raises(AssertionError):
        await cell()
