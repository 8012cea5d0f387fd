"""Measures what attackers at one address cost a client at another: the time of its logins, and its produce latency.

The latency is that of a connection that was open before, at a broker with an ordinary key. It is measured in turn
without attackers, with attackers at another broker of the machine, and with attackers at the client's own broker. All
share the machine's processors, so only the difference between the last two is the broker's.

Logins are tried at that broker, and at one whose key is so slow that it can't keep up with the attackers. At the slow
one, clients get in only because addresses take turns.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from certificates import CURVE, SLOW_KEY, Authority
from tests.faults.gaps import percentile
from tests.fuzz.stack import Stack
from tests.security.attackers import GUESSERS, HELLOS_PER_S, Done, attack
from tests.security.bystander import Bystander
from users import PASSWORDS, Users

import ottla

ROUNDS: Final = 5
LOGINS: Final = 25
LOGIN_BOUND_S: Final = 1.0
RATIO_BOUND: Final = 2.0
ADDED_BOUND: Final = 1.2
"""What the client's broker adds was 0.9 when the bound was chosen, and 1.4 with slices of 20 ms for newcomers and no
pause."""
_USER: Final = "bob"
_TOPIC: Final = "beside-a-burst"
_LOGIN_EVERY_S: Final = 0.27
"""The hellos of a second come at once, and this does not divide a second, so logins begin at different times after the
hellos."""
_WARM_UP_S: Final = 1.0
_WINDOWS: Final = 7
_WINDOW_S: Final = 1.0
"""The length of a window, which has the hellos of one second. The p99 of a phase is the median of the p99s of its
windows, so that bursts of other programs on the machine don't count."""
_PRODUCE_EVERY_S: Final = 0.005
_SPARE_S: Final = 1.0
"""The time for which the attackers go on after the measurement."""


class Phases(NamedTuple):
    """The p99 of produces in milliseconds: without attackers, with attackers at another broker of the machine, and with
    attackers at the client's own broker."""

    quiet: float
    elsewhere: float
    burst: float

    @property
    def ratio(self) -> float:
        return self.burst / self.quiet

    @property
    def added(self) -> float:
        """The ratio by which attackers at the client's own broker cost more than attackers elsewhere on the machine."""
        return self.burst / self.elsewhere


@dataclass
class Burst:
    """The outcome. Times are in seconds."""

    logins: list[float] = field(default_factory=list)
    slow_key_logins: list[float] = field(default_factory=list)
    rounds: list[Phases] = field(default_factory=list)
    attacks: list[Done] = field(default_factory=list)
    slow_key_attacks: list[Done] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(phases.ratio for phases in self.rounds)

    @property
    def added(self) -> float:
        return statistics.median(phases.added for phases in self.rounds)

    @property
    def wrong(self) -> list[str]:
        """Say what does not hold, and which attacks were too weak to prove anything."""
        found = list(self.failed)
        for what, logins in (("", self.logins), (" at a broker with a slow key", self.slow_key_logins)):
            if late := [f"{login:.2f}" for login in logins if login > LOGIN_BOUND_S]:
                found.append(f"{len(late)} of {len(logins)} logins{what} took more than {LOGIN_BOUND_S} s: {late}")
        if self.rounds and self.ratio > RATIO_BOUND:
            found.append(f"the p99 of produces is {self.ratio:.2f} times as long beside the burst, not {RATIO_BOUND}")
        if self.rounds and self.added > ADDED_BOUND:
            found.append(
                f"the p99 of produces is {self.added:.2f} times as long as with the burst at another broker, not "
                f"{ADDED_BOUND}"
            )
        for done in (*self.attacks, *self.slow_key_attacks):
            if done.hellos_per_s < HELLOS_PER_S:
                found.append(f"{done.hellos_per_s:.0f} hellos a second prove nothing: {HELLOS_PER_S} are promised")
            if done.let_in:
                found.append(f"{done.let_in} guesses of a password were not rejected")
        # At the slow broker the hellos keep out the guessers, who share their address.
        few = [done.guessers for done in self.attacks if done.guessers < GUESSERS]
        return found + [f"{guessers} guessers prove nothing: {GUESSERS} are promised" for guessers in few]

    def as_json(self) -> dict[str, Any]:
        ratios, added = sorted(each.ratio for each in self.rounds), sorted(each.added for each in self.rounds)
        quiet, elsewhere, beside = (round(statistics.median(each), 2) for each in zip(*self.rounds, strict=True))
        return {
            "logins": len(self.logins),
            "slowest_login_ms": round(1000 * max(self.logins)),
            "slow_key_logins": len(self.slow_key_logins),
            "slowest_slow_key_login_ms": round(1000 * max(self.slow_key_logins)),
            "rounds": len(ratios),
            "quiet_p99_ms": quiet,
            "elsewhere_p99_ms": elsewhere,
            "burst_p99_ms": beside,
            "ratio": round(self.ratio, 2),
            "ratio_spread": [round(ratios[0], 2), round(ratios[-1], 2)],
            "added": round(self.added, 2),
            "added_spread": [round(added[0], 2), round(added[-1], 2)],
            "hellos_per_s": round(min(attack.hellos_per_s for attack in self.attacks)),
            "guesses_per_s": round(min(attack.guesses_per_s for attack in self.attacks)),
            "attackers_processors": round(max(attack.processors for attack in self.attacks), 2),
            "load": round(os.getloadavg()[0], 1),
        }


class Broker:
    """A broker that takes logins over TLS."""

    def __init__(self, stack: Stack, authority: Authority) -> None:
        self.port: Final = stack.kafka_port
        self._authority: Final = authority

    def new_client(self) -> Bystander:
        return Bystander(self.port, self._authority.certificate, _USER, PASSWORDS[_USER])

    def create_topic(self) -> None:
        login, tls = ottla.Scram(_USER, PASSWORDS[_USER], "SCRAM-SHA-256"), ottla.Tls(self._authority.certificate)
        with ottla.Admin(f"127.0.0.1:{self.port}", login=login, tls=tls) as admin:
            admin.topics.create(_TOPIC, partitions=1)


@contextmanager
def broker_with_tls(folder: Path, key_kind: Sequence[str] = CURVE) -> Iterator[Broker]:
    """Start a broker. `key_kind` are OpenSSL's arguments for its key."""
    authority = Authority(folder / "authority")
    settings = {
        "kafka-listener-protocols": "PLAINTEXT:SASL_SSL",
        "sasl-enabled-mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl-credentials-file": Users().write(folder / "users.toml"),
        "ssl-keystore-location": authority.issue("broker", "IP:127.0.0.1", key_kind=key_kind).both,
    }
    with Stack(folder, broker=settings) as stack:
        yield Broker(stack, authority)


def run(folder: Path) -> Burst:
    burst = Burst()
    with broker_with_tls(folder / "fast") as broker:
        broker.create_topic()
        burst.logins = _logins_beside(burst, broker, burst.attacks)
        with broker_with_tls(folder / "another") as another:
            _compare(burst, broker, another)
    burst_at_slow_key(burst, folder / "slow")
    return burst


def burst_at_slow_key(burst: Burst, folder: Path) -> None:
    with broker_with_tls(folder, SLOW_KEY) as broker:
        burst.slow_key_logins = _logins_beside(burst, broker, burst.slow_key_attacks)


def _logins_beside(burst: Burst, broker: Broker, attacks: list[Done]) -> list[float]:
    """Log in again and again beside an attack, and return how long each login took."""
    took: list[float] = []
    with attack(broker.port, LOGINS * _LOGIN_EVERY_S + _SPARE_S) as done:
        attacks.append(done)
        due = time.monotonic()
        for _ in range(LOGINS):
            due += _LOGIN_EVERY_S
            time.sleep(max(0.0, due - time.monotonic()))
            begun = time.monotonic()
            try:
                broker.new_client().close()
            except OSError as error:
                burst.failed.append(f"a login beside the burst failed: {error}")
            took.append(time.monotonic() - begun)
    median, slowest = (round(seconds * 1000) for seconds in (statistics.median(took), max(took)))
    print(f"{LOGINS} logins: median {median} ms, slowest {slowest} ms; {_said(done)}", flush=True)
    return took


def _compare(burst: Burst, broker: Broker, another: Broker) -> None:
    with broker.new_client() as client:
        for _ in range(ROUNDS):
            client.latencies(_TOPIC, _WARM_UP_S, _PRODUCE_EVERY_S)
            quiet = _p99_ms(client)
            elsewhere, beside = (_p99_ms_beside(burst, client, attacked) for attacked in (another, broker))
            phases = Phases(quiet, elsewhere, beside)
            burst.rounds.append(phases)
            print(
                f"p99 {quiet:.2f} ms, {elsewhere:.2f} with the burst at another broker, {beside:.2f} beside it, "
                f"{phases.ratio:.2f} and {phases.added:.2f} times; {_said(burst.attacks[-1])}",
                flush=True,
            )


def _p99_ms_beside(burst: Burst, client: Bystander, attacked: Broker) -> float:
    with attack(attacked.port, _WINDOWS * _WINDOW_S + _SPARE_S) as done:
        burst.attacks.append(done)
        return _p99_ms(client)


def _said(done: Done) -> str:
    return (
        f"{done.hellos_per_s:.0f} hellos and {done.guesses_per_s:.0f} guesses a second by {done.guessers} guessers, "
        f"who used {done.processors:.2f} processors"
    )


def _p99_ms(client: Bystander) -> float:
    windows = [client.latencies(_TOPIC, _WINDOW_S, _PRODUCE_EVERY_S) for _ in range(_WINDOWS)]
    return statistics.median(percentile(window, 0.99) for window in windows) * 1000
