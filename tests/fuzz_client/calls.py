"""Plays one exchange, or several on one stream, through a peer of the transport."""

from __future__ import annotations

import random
import time
import traceback
from threading import Condition
from typing import Any, Final

from tests.fuzz_client.case import Case, Level
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.exchanges import EXCHANGES, FETCH, PRODUCE, fetch, produce
from tests.fuzz_client.logins import login_of
from tests.fuzz_client.misdeeds import MISDEEDS
from tests.fuzz_client.vocabulary import HOST

from ottla.client.kafka.exchange import Outcome
from ottla.client.kafka.peer import KafkaPeer
from ottla.client.kafka.sockets.address import Address
from ottla.client.kafka.sockets.network import Network
from ottla.client.kafka.sockets.protection import Protection
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.broker_session import BrokerSession
from ottla_core.clock import SystemClock

TIMEOUT_S: Final = 8.0
"""The timeout of a call that is not meant to wait for it."""
SHORT_TIMEOUT_S: Final = 0.2
"""The timeout of a call that is meant to wait for it."""
_GRACE_S: Final = 1.0
"""A stream gives the response this much time beyond the timeout."""
_GOES_ON_SHARE: Final = 0.3
"""The share of calls that are followed by others."""
_SLOW_SHARE: Final = 0.01
"""The share of calls followed by others, if their connection is given up only after ten seconds, because the broker
owes its versions."""
_GOES_ON_WITHIN_S: Final = 12.0
_WITH_ERRORS_SHARE: Final = 0.5
"""The share of calls whose error is a result, as of those that any broker may answer."""
_NEXT_TIMEOUT_S: Final = 1.0
_PAUSE_S: Final = 0.02
_GIVES_UP_AFTER_S: Final = 4.0
"""How long after its deadline a stream may still report. An outcome that comes after the deadline is too late."""
_SILENT_SHARE: Final = 0.1
"""The share of producing streams that want no response."""
_NOT_IN_VERSION: Final = "can't be encoded in version"


def play_call(case: Case, port: int, *, patience: float = 1.0) -> Ending:
    """Make one call, or several on one stream, and close the peer. Short timeouts are `patience` times as long."""
    network = Network(case.client_id, "0", SystemClock(), Protection(login=login_of(case.mechanism)))
    peer = KafkaPeer(Address(f"{HOST}:{port}", network))
    timeout_s = SHORT_TIMEOUT_S * patience if MISDEEDS[case.misdeed].waits else TIMEOUT_S
    try:
        if case.level is Level.STREAM:
            return _stream(case, peer, timeout_s)
        return _calls(case, peer, timeout_s)
    except Exception:
        return Ending(How.CRASH, traceback.format_exc())
    finally:
        peer.close()


def _calls(case: Case, peer: KafkaPeer, timeout_s: float) -> Ending:
    ending = _call(case, peer, timeout_s)
    is_slow = case.in_handshake and MISDEEDS[case.misdeed].waits
    share = _SLOW_SHARE if is_slow else _GOES_ON_SHARE
    if case.chance("goes on").random() < share and _must_go_on(case, ending):
        ending.faults += _does_not_go_on(case, peer)
    return ending


def _call(case: Case, peer: KafkaPeer, timeout_s: float) -> Ending:
    chance = case.chance("request")
    until = time.monotonic() + timeout_s
    try:
        _make(case, peer, chance, timeout_s)
    except OttlaError as error:
        return _failed(case, error, until)
    return Ending(How.RESPONSE, late_s=time.monotonic() - until)


def _make(case: Case, peer: KafkaPeer, chance: random.Random, timeout_s: float) -> None:
    """Make the call. Raises the error that ends it, or that is in the response."""
    asked = EXCHANGES[case.asks](chance)
    if chance.random() < _WITH_ERRORS_SHARE:
        outcome = peer.exchange(asked.with_errors, timeout=timeout_s)
        if outcome.error is not None:
            raise outcome.error
    else:
        peer.exchange(asked, timeout=timeout_s)


def _must_go_on(case: Case, ending: Ending) -> bool:
    """Return whether the next call has to be answered.

    It need not be if the client believed something that prevents it, such as versions or a pause.
    """
    misdeed = MISDEEDS[case.misdeed]
    return ending.how is not How.MISSING and not (misdeed.lasting or misdeed.kept or misdeed.speaks_well)


def _does_not_go_on(case: Case, peer: KafkaPeer) -> list[str]:
    """Make the call again until it is answered, as a client does after an error."""
    last = None
    until = time.monotonic() + _GOES_ON_WITHIN_S
    while time.monotonic() < until:
        try:
            _make(case, peer, case.chance("request"), _NEXT_TIMEOUT_S)
        except OttlaError as error:
            last = error
            if _is_refused(error):
                return []
        else:
            return []
        time.sleep(_PAUSE_S)
    return [f"the address is honest again, and no call succeeds: {last}"]


def _failed(case: Case, error: OttlaError, until: float) -> Ending:
    was_refused = _is_refused(error)
    how = How.MISSING if was_refused and not MISDEEDS[case.misdeed].kept else How.ERROR
    return Ending(how, error.message, time.monotonic() - until, was_refused=was_refused)


def _is_refused(error: OttlaError) -> bool:
    """Return whether the messages of this version can't express the request."""
    return error.code == ErrorCode.UNSUPPORTED_VERSION or _NOT_IN_VERSION in error.message


class _Told:
    """What a stream has reported about its calls."""

    def __init__(self) -> None:
        self.changed: Final = Condition()
        self.responses: Final[dict[int, Outcome[Any]]] = {}
        self.ends: Final[list[tuple[OttlaError, list[int]]]] = []
        self.faults: Final[list[str]] = []

    def on_response(self, number: int, outcome: Outcome[Any]) -> None:
        with self.changed:
            if number in self.responses or self.ends:
                self.faults.append(f"call {number} has ended before")
            self.responses[number] = outcome
            self.changed.notify_all()

    def on_broken(self, error: OttlaError, left: list[int]) -> None:
        with self.changed:
            if self.ends:
                self.faults.append("a stream has broken twice")
            self.ends.append((error, left))
            self.changed.notify_all()


def _stream(case: Case, peer: KafkaPeer, timeout_s: float) -> Ending:
    chance = case.chance("request")
    told, session = _Told(), BrokerSession()
    at_once = case.asks == PRODUCE  # a stream has one fetch at a time
    until = time.monotonic() + timeout_s + _GRACE_S
    begun, refused = [], None
    is_silent = case.asks == PRODUCE and chance.random() < _SILENT_SHARE
    try:
        stream = peer.open_stream(case.asks, told.on_response, told.on_broken, session)
        for _ in range(case.at + 1 + chance.randrange(2)):
            asked = fetch(chance, session) if case.asks == FETCH else EXCHANGES[case.asks](chance)
            if is_silent:
                asked = produce(chance, acks=0)
            if not at_once:
                until = time.monotonic() + timeout_s + _GRACE_S
            number = stream.send(asked, timeout_ms=int(timeout_s * 1000), answered=not is_silent)
            begun += [number] * (not is_silent)
            if not at_once:
                _wait(told, begun, until)
    except OttlaError as error:
        refused = error
    _wait(told, begun, until)
    late_s = time.monotonic() - until
    stream.close()  # which does not wait for the last request of a fetch session
    peer.close()
    return _judged(told, begun, refused, late_s)


def _wait(told: _Told, begun: list[int], until: float) -> None:
    """Wait until each call has ended, but not for ever."""
    with told.changed:
        limit_s = until - time.monotonic() + _GIVES_UP_AFTER_S
        told.changed.wait_for(lambda: told.ends or told.responses.keys() >= set(begun), limit_s)


def _judged(told: _Told, begun: list[int], refused: OttlaError | None, late_s: float) -> Ending:
    left = [number for _, numbers in told.ends for number in numbers]
    faults = [*told.faults]
    if not told.ends:
        faults.append("the end of the stream was not told")
    if begun and sorted([*told.responses, *left]) != begun:
        faults.append(f"of the calls {begun}, {sorted(told.responses)} were answered and {left} were left")
    errors = [outcome.error for outcome in told.responses.values() if outcome.error is not None]
    if left or refused is not None:
        error = told.ends[0][0] if told.ends else refused
        assert error is not None
        return Ending(How.ERROR, error.message, late_s, faults)
    if errors:
        return Ending(How.ERROR, errors[0].message, late_s, faults)
    return Ending(How.RESPONSE, "", late_s, faults, was_asked=bool(begun))
