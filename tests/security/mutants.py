"""Makes mistakes in the product that would make a cluster insecure, one at a time. Tests have to notice each.

A mutant is a story of something that did not happen, and it is put in place as a story is (`tests.regressions`). So
this module imports nothing of the product: it is broken while it is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_UNIT = "tests/unit"
_DOOR = f"{_UNIT}/broker/kafka/test_authorization.py"
_CORE = f"{_UNIT}/core/security"


class Mutant(NamedTuple):
    """A mistake, and the arguments of pytest for the tests that notice it."""

    story: Story
    tests: tuple[str, ...]


def _without_groups(original, self, operation, *resource):
    if not resource or resource[0].name != "GROUP":
        original(self, operation, *resource)


def _allowing(original, self, principal, host, operation, resource_type, name):
    from ottla_core.security.acl import Permission
    from ottla_core.security.decision import Decision

    for rules in self._rules_for(principal, host, resource_type):
        for acl in rules.that(Permission.ALLOW, operation):
            if acl.name == name:
                return Decision(True, acl)
    return original(self, principal, host, operation, resource_type, name)


def _whole_names(original, self, name):
    yield from ([self._values[name]] if name in self._values else ())


def _of_nobody(original, backend, method, request, principal, timeout):
    return original(backend, method, request, "", timeout)


def _own_nonce(original, message, header, nonce):
    parts = message.split(b",")
    return original(message, header, parts[1][2:] if len(parts) > 1 else nonce)


def _names_that_exist(original, image, request):
    return (name for name in original(image, request) if name in image.topics)


def _logged(original, login, message, threads):
    import logging

    logging.getLogger("ottla_broker").warning("a login by %r", message)
    return original(login, message, threads)


def _kept(original, self, revision):
    self._revision = revision
    return original(self, revision)


def _the_first(original, self, principal, host):
    return original(self, principal, host) if self._decisions is None else self._decisions


def _of_one_host(original, self, host, *item):
    return original(self, "", *item)


_ALL = (
    Mutant(
        Story(
            "a-method-without-a-check",
            "Requests about groups are not checked",
            instead_of("ottla_broker.kafka.authorization.access:Access.check", _without_groups),
        ),
        (_DOOR, "-k", "Heartbeat"),
    ),
    Mutant(
        Story(
            "allow-before-deny",
            "An ACL that allows is looked for before one that denies",
            instead_of("ottla_core.security.authorizer:Authorizer.decide", _allowing),
        ),
        (f"{_CORE}/test_authorizer.py",),
    ),
    Mutant(
        Story(
            "prefix-taken-as-literal",
            "A prefixed pattern matches its own name alone",
            instead_of("ottla_core.security.prefixes:Prefixes.of", _whole_names),
        ),
        (f"{_CORE}/test_authorizer.py",),
    ),
    Mutant(
        Story(
            "principal-not-forwarded",
            "A broker does not tell the controller for whom it calls",
            instead_of("ottla_broker.kafka.forwarding.controller_calls:_call", _of_nobody),
        ),
        (f"{_UNIT}/broker/kafka/test_admin_forwarding.py",),
    ),
    Mutant(
        Story(
            "nonce-not-compared",
            "SCRAM's last message may be one of another exchange",
            instead_of("ottla_core.security.scram_exchange:_parse_final", _own_nonce),
        ),
        (f"{_CORE}/test_scram_exchange.py",),
    ),
    Mutant(
        Story(
            "existence-revealed",
            "Metadata looks whether a topic exists before it looks whether the client may know",
            instead_of("ottla_broker.kafka.handlers.metadata:_names", _names_that_exist),
        ),
        (_DOOR, "-k", "reveal"),
    ),
    Mutant(
        Story(
            "secret-in-a-log",
            "The message of a login, which may be a password, is logged",
            instead_of("ottla_broker.kafka.logins:respond", _logged),
        ),
        ("tests/system/test_guarded_cluster.py::test_secrets_are_seen_nowhere",),
    ),
    Mutant(
        Story(
            "cache-not-dropped",
            "Decisions are kept when the ACLs have changed",
            instead_of("ottla_core.security.decisions:Decisions._of", _kept),
        ),
        (f"{_CORE}/test_decisions.py",),
    ),
    Mutant(
        Story(
            "decisions-of-another-principal",
            "A connection keeps its decisions when another principal has logged in",
            instead_of("ottla_broker.kafka.authorization.access:KeptDecisions.of", _the_first),
        ),
        (f"{_UNIT}/broker/kafka/test_access.py",),
    ),
    Mutant(
        Story(
            "everyone-may-write-somewhere",
            "An idempotent producer needs no ACL on any topic",
            skipped("ottla_broker.kafka.authorization.access:LimitedAccess.allows_any", True),
        ),
        (_DOOR, "-k", "InitProducerId"),
    ),
    Mutant(
        Story(
            "service-role-ignored",
            "A service may call every method, whatever its certificate says",
            skipped("ottla_core.rpc.service_access:Caller.check"),
        ),
        (f"{_UNIT}/core/test_service_access.py",),
    ),
    Mutant(
        Story(
            "exposed-without-a-word",
            "A service listens in plaintext beyond loopback without being told to",
            skipped("ottla_core.process.exposure:check_exposure"),
        ),
        (f"{_UNIT}/core/process/test_exposure.py",),
    ),
    Mutant(
        Story(
            "addresses-share-their-turns",
            "All clients wait in one line, whatever their addresses",
            *(
                instead_of(f"ottla_broker.kafka.network.by_host:ByHost.{name}", _of_one_host)
                for name in ("count", "add", "drop")
            ),
        ),
        ("tests/security/crowded_logins.py",),
    ),
)

MUTANTS = {mutant.story.name: mutant for mutant in _ALL}
