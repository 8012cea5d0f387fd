"""The services that Spark writes to: processes of one stack, killed while a step is taken, or away for a minute."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.faults.spark.schedule import BROKER, BROKERS_OUTAGE, TXN, TXN_OUTAGE

from ottla_stack.running import RunningStack

OUTAGE_S: Final = 60.0
_SOON_S: Final = 0.05
"""Longer than most steps take: a kill comes before one, in it or after it."""
_AGAIN_S: Final = 0.1


class Services:
    """The services of `stack`, which restarts each one that ends. `close` returns after all begun kills are over."""

    def __init__(self, stack: RunningStack, seed: int) -> None:
        self._stack: Final = stack
        self._chance: Final = random.Random(f"services-{seed}")
        self._strikes: Final[list[threading.Thread]] = []
        self._all: Final = {
            kind: [service.name for service in stack.plan.services() if service.name.startswith(kind)]
            for kind in (TXN, BROKER)
        }

    def strike(self, victim: str) -> None:
        """Begin with what the schedule calls so, once what was begun before is over."""
        outages = {TXN_OUTAGE: self._keep_killing, BROKERS_OUTAGE: self._hang}
        strike: Callable[[], None] = outages.get(victim) or partial(
            self._kill, self._chance.choice(self._all[victim]), self._chance.uniform(0, _SOON_S)
        )
        self.close()
        self._strikes.append(threading.Thread(target=strike, daemon=True))
        self._strikes[-1].start()

    def close(self) -> None:
        while self._strikes:
            self._strikes.pop().join()

    def _kill(self, name: str, after_s: float) -> None:
        self._stack.pid(name)  # it may be starting again
        time.sleep(after_s)
        self._send(name, signal.SIGKILL)

    def _keep_killing(self) -> None:
        over_at = time.monotonic() + OUTAGE_S
        while time.monotonic() < over_at:
            for name in self._all[TXN]:
                self._send(name, signal.SIGKILL)
            time.sleep(_AGAIN_S)

    def _hang(self) -> None:
        """All of them: each has a replica of the decisions."""
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for name in self._all[BROKER]:
                self._send(name, number)
            if number == signal.SIGSTOP:
                time.sleep(OUTAGE_S)

    def _send(self, name: str, number: signal.Signals) -> None:
        """Nothing where it is being started again."""
        if (process := self._stack.process(name)) is not None:
            process.identity.send(number)
