"""Plays one call, or one stream of calls, through a peer of the transport."""

from __future__ import annotations

import random
import time
import traceback
from threading import Condition
from typing import Any, Final

from tests.fuzz_client.case import Case, Level
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.exchanges import EXCHANGES
from tests.fuzz_client.logins import login_of
from tests.fuzz_client.misdeeds import MISDEEDS
from tests.fuzz_client.requests import methods, plausible
from tests.fuzz_client.vocabulary import HOST, TOPIC, TOPIC_ID

from ottla.client.kafka.peer import KafkaPeer
from ottla.client.kafka.sockets.address import Address
from ottla.client.kafka.sockets.network import Network
from ottla.client.kafka.sockets.protection import Protection
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError
from ottla_core.clock import SystemClock
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Broker

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
_NEXT_TIMEOUT_S: Final = 1.0
_PAUSE_S: Final = 0.02
_GIVES_UP_AFTER_S: Final = 4.0
"""How long after its deadline a stream may still report. An outcome that comes after the deadline is too late."""
_SILENT_SHARE: Final = 0.1
"""The share of producing streams that want no response."""
_NOT_IN_VERSION: Final = "can't be encoded in version"


def play_call(case: Case, port: int, *, patience: float = 1.0) -> Ending:
    """Make one call, or several on one stream, and close the peer. Short timeouts are `patience` times as long."""
    names = TopicNames()
    names.learn(TOPIC_ID, TOPIC)
    network = Network(case.client_id, "0", SystemClock(), Protection(login=login_of(case.mechanism)))
    peer = KafkaPeer(Address(f"{HOST}:{port}", network), names)
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
    if (maker := EXCHANGES.get(case.method)) is not None:
        peer.exchange(maker(chance), timeout=timeout_s)
        return
    method = methods()[case.method]
    request = plausible(method, chance)
    make = chance.choice((peer.call, peer.ask))
    response = make(method, request, timeout=timeout_s)
    if response.error.code:
        raise OttlaError(response.error.code, response.error.message)


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
    """Return whether Kafka's messages can't express the request, or not in this version."""
    return error.code == ErrorCode.UNSUPPORTED_VERSION or _NOT_IN_VERSION in error.message


class _Told:
    """What a stream has reported about its calls."""

    def __init__(self) -> None:
        self.changed: Final = Condition()
        self.responses: Final[dict[int, Any]] = {}
        self.ends: Final[list[tuple[OttlaError, list[int]]]] = []
        self.faults: Final[list[str]] = []

    def on_response(self, number: int, response: Any) -> None:
        with self.changed:
            if number in self.responses or self.ends:
                self.faults.append(f"call {number} has ended before")
            self.responses[number] = response
            self.changed.notify_all()

    def on_broken(self, error: OttlaError, left: list[int]) -> None:
        with self.changed:
            if self.ends:
                self.faults.append("a stream has broken twice")
            self.ends.append((error, left))
            self.changed.notify_all()


def _stream(case: Case, peer: KafkaPeer, timeout_s: float) -> Ending:
    chance = case.chance("request")
    method, told = methods()[case.method], _Told()
    at_once = method is not Broker.FETCH  # which has one request at a time
    until = time.monotonic() + timeout_s + _GRACE_S
    begun, refused = [], None
    is_silent = method is Client.PRODUCE and chance.random() < _SILENT_SHARE
    try:
        stream = peer.open_stream(method, told.on_response, told.on_broken)
        for _ in range(case.at + 1 + chance.randrange(2)):
            request = plausible(method, chance)
            if is_silent:
                request.acks = 0
            number = stream.send(request, timeout_ms=int(timeout_s * 1000), answered=not is_silent)
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
    errors = [response.error for response in told.responses.values() if response.error.code]
    if left or refused is not None:
        error = told.ends[0][0] if told.ends else refused
        assert error is not None
        return Ending(How.ERROR, error.message, late_s, faults)
    if errors:
        return Ending(How.ERROR, errors[0].message, late_s, faults)
    return Ending(How.RESPONSE, "", late_s, faults, was_asked=bool(begun))
