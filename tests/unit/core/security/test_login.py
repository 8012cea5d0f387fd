"""The login of a connection: every cell of its tables, and whole logins through it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from users import PASSWORDS, Users

from ottla.client.kafka.sasl.plain import PlainConversation
from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.candidates import Candidates
from ottla_core.security.exchange import Derivation, Exchange
from ottla_core.security.login import ACTIONS, NEXT, Login, LoginAction, LoginRequest, LoginState, LoginStep
from ottla_core.security.plain import PlainExchange
from ottla_core.security.scram_exchange import ScramExchange

CANDIDATES = Candidates(Users(), lambda: b"secret")
MECHANISMS: dict[str, Callable[[], Exchange]] = {
    "SCRAM-SHA-256": lambda: ScramExchange("SCRAM-SHA-256", CANDIDATES, "ours"),
    "PLAIN": lambda: PlainExchange(CANDIDATES),
}
ALICE = PlainConversation("alice", PASSWORDS["alice"])
WRONG = PlainConversation("alice", "not-hers")
SERVE, CHOOSE, EXCHANGE, ILLEGAL, CLOSE = LoginAction

EXPECTED = {
    #                           ApiVersions  Handshake  Authenticate  token     other
    LoginState.START:          (SERVE,       CHOOSE,    CLOSE,        CLOSE,    CLOSE),
    LoginState.VERSIONS_SHOWN: (CLOSE,       CHOOSE,    CLOSE,        CLOSE,    CLOSE),
    LoginState.EXCHANGE:       (CLOSE,       ILLEGAL,   EXCHANGE,     CLOSE,    CLOSE),
    LoginState.TOKENS:         (CLOSE,       CLOSE,     CLOSE,        EXCHANGE, CLOSE),
    LoginState.LOGGED_IN:      (SERVE,       ILLEGAL,   ILLEGAL,      CLOSE,    SERVE),
    LoginState.FAILED:         (CLOSE,       CLOSE,     CLOSE,        CLOSE,    CLOSE),
}  # fmt: skip


def respond(login: Login, message: bytes) -> bytes:
    """What a broker does with a message, without a thread."""
    response = login.respond(message)
    return login.on_derived(response, response.derive()) if isinstance(response, Derivation) else response


def in_state(state: LoginState) -> Login:
    login = Login(MECHANISMS, 0.1)
    if state is LoginState.VERSIONS_SHOWN:
        login.on_versions_shown()
    elif state is LoginState.EXCHANGE:
        login.choose("PLAIN", 1)
    elif state is LoginState.TOKENS:
        login.choose("PLAIN", 0)
    elif state is not LoginState.START:
        login.choose("PLAIN", 1)
        if state is LoginState.LOGGED_IN:
            respond(login, ALICE.first())
        else:
            with pytest.raises(OttlaError):
                respond(login, WRONG.first())
    assert login.state is state
    return login


@pytest.mark.parametrize("state", LoginState)
@pytest.mark.parametrize("request_", LoginRequest)
def test_what_is_done_with_each_request_in_each_state(state: LoginState, request_: LoginRequest) -> None:
    expected = EXPECTED[state][list(LoginRequest).index(request_)]
    login = in_state(state)
    assert ACTIONS[state, request_] is login.action(request_) is expected
    assert login.state is state, "a look changes nothing"


def test_the_table_has_every_cell() -> None:
    assert set(ACTIONS) == set(product(LoginState, LoginRequest))


@pytest.mark.parametrize("state", [state for state in LoginState if state is not LoginState.FAILED])
def test_a_handshake_in_each_state(state: LoginState) -> None:
    login = in_state(state)
    if login.action(LoginRequest.HANDSHAKE) is CHOOSE:
        login.choose("SCRAM-SHA-256", 1)
        assert login.state is LoginState.EXCHANGE
        return
    with pytest.raises(OttlaError) as caught:
        login.choose("SCRAM-SHA-256", 1)
    assert caught.value.code == ErrorCode.ILLEGAL_SASL_STATE
    assert login.state is (LoginState.LOGGED_IN if state is LoginState.LOGGED_IN else LoginState.FAILED)


@pytest.mark.parametrize("state", [state for state in LoginState if state is not LoginState.FAILED])
def test_a_message_of_a_mechanism_in_each_state(state: LoginState) -> None:
    login = in_state(state)
    if state in (LoginState.EXCHANGE, LoginState.TOKENS):
        assert respond(login, ALICE.first()) == b""
        assert login.state is LoginState.LOGGED_IN
        return
    with pytest.raises(OttlaError) as caught:
        login.respond(ALICE.first())
    assert caught.value.code == ErrorCode.ILLEGAL_SASL_STATE
    assert login.state is (LoginState.LOGGED_IN if state is LoginState.LOGGED_IN else LoginState.FAILED)


def test_what_is_logged_in_stays_so() -> None:
    """A client that asks again, in vain, goes on (KIP-368 is not enabled)."""
    login = in_state(LoginState.LOGGED_IN)
    login.on_versions_shown()
    for again in (lambda: login.choose("PLAIN", 1), lambda: login.respond(ALICE.first())):
        with pytest.raises(OttlaError, match="the client is logged in already"):
            again()
    assert (login.is_over, login.principal, login.failure) == (True, "User:alice", "")


def test_every_state_has_a_way_to_its_end() -> None:
    ends = {LoginState.LOGGED_IN, LoginState.FAILED}
    for state in set(LoginState) - ends:
        ways = {step: NEXT[state, step] for step in LoginStep if (state, step) in NEXT}
        assert ways[LoginStep.REJECTED] is LoginState.FAILED
        assert len(ways) > 1
    assert {state for (state, _), target in NEXT.items() if target is not state} == set(LoginState) - ends


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_by_scram(version: int) -> None:
    login, client = Login(MECHANISMS, 0.1), ScramConversation("SCRAM-SHA-256", "bob", PASSWORDS["bob"], "theirs")
    login.on_versions_shown()
    login.choose("SCRAM-SHA-256", version)
    assert login.expects_token is (version == 0)
    final = client.answer(respond(login, client.first()))
    assert final is not None
    assert (login.is_over, login.principal) == (False, "User:ANONYMOUS")
    assert client.answer(respond(login, final)) is None
    assert (login.is_over, login.principal, login.expects_token) == (True, "User:bob", False)


def test_a_mechanism_that_is_not_enabled() -> None:
    login = Login(MECHANISMS, 0.1)
    with pytest.raises(OttlaError) as caught:
        login.choose("GSSAPI" * 100, 1)
    assert caught.value.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login.state is LoginState.FAILED
    assert login.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
    assert login.failure.endswith("is not enabled; there is SCRAM-SHA-256, PLAIN")
    assert len(login.failure) < 120


def test_a_failure_is_told_to_the_operator_without_the_password() -> None:
    login = in_state(LoginState.FAILED)
    assert login.failure == "the login by PLAIN failed: the password of user 'alice' is wrong"
    assert login.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("message", [b"", b"\xff" * 5000, b"n,,n=alice,r=", b"\0" * 100])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_malformed_message_ends_the_login(mechanism: str, message: bytes) -> None:
    login = Login(MECHANISMS, 0.1)
    login.choose(mechanism, 1)
    with pytest.raises(OttlaError) as caught:
        login.respond(message)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert login.state is LoginState.FAILED
    assert login.failure.startswith(f"the login by {mechanism} failed: the client's message breaks the rules of ")


def test_another_mechanism_needs_no_more_than_an_exchange() -> None:
    """OAUTHBEARER, for one, whose first message may be its last, and whose check may take its time."""

    class Tokens:
        user: str | None = None

        def respond(self, message: bytes) -> Any:
            return Derivation(lambda: message, self._check)

        def _check(self, derived: bytes) -> bytes:
            self.user = derived.decode()
            return b"welcome"

    login = Login({"OAUTHBEARER": Tokens}, 0.1)
    login.choose("OAUTHBEARER", 1)
    assert respond(login, b"alice") == b"welcome"
    assert login.principal == "User:alice"
