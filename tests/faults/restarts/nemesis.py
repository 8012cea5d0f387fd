"""The nemesis restarts services in turn after a SIGTERM, or kills several at once with kill -9."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.faults.fault_run import CLIENTS
from tests.faults.nemesis import Nemesis
from tests.faults.node import Node
from tests.faults.restarts.cluster import RestartedCluster

_DOWN_S: Final = (0.0, 0.5, 2.0, 5.0)
"""Shorter and longer than the lease of a coordinator, so that its shards stay or move."""


class RestartNemesis(Nemesis):
    """`apps` are the processes of the App, which are killed as well.

    `has_lived` tells whether the query's driver has had all its lives.
    """

    cluster: RestartedCluster

    def __init__(self, cluster: RestartedCluster, topic: str, partitions: int, seed: str, log: Path) -> None:
        super().__init__(cluster, topic, partitions, CLIENTS, seed, log)
        self.apps: Sequence[Node] = ()
        self.has_lived: Callable[[], bool] = lambda: True
        self.restarts: Final[Counter[str]] = Counter()
        """By kind of service, and of Apps."""

    def restart_in_turn(self, names: Sequence[str]) -> None:
        """Restart services one by one with SIGTERM. Each serves again before the next one is stopped."""
        for name in names:
            with self.hit("restarted", name):
                self.terminate(name)
                self.start(name)
            self._count(name)

    def kill_at_once(self, names: Sequence[str]) -> None:
        """Kill -9 all of these, and start them some time later."""
        with self.hit("killed", *names):
            self.kill(*names)
            time.sleep(self.random.choice(_DOWN_S))
            self.start(*names)
        for name in names:
            self._count(name)

    def restart_app(self, *, kill: bool) -> None:
        """Restart one process of the App, with kill -9 or SIGTERM."""
        self.look_after_apps()
        app = self.random.choice(self.apps)
        if kill:
            app.kill()
        else:
            app.terminate()
            if (code := app.wait()) != 0:
                self.failures.append(f"{app.name} exited with {code} after SIGTERM")
        self.note(f"restarted {app.name}")
        app.start()
        self.restarts["app"] += 1

    def look_after_apps(self) -> None:
        """Start what has ended by itself, which it must not do."""
        for app in self.apps:
            if app.ended_by_itself is not None:
                self.failures.append(f"{app.name} ended by itself with {app.ended_by_itself}")
                app.start()

    def _count(self, name: str) -> None:
        self.restarts[name.partition("-")[0]] += 1
