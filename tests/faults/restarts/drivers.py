"""The query's driver is killed over and over, and some of its lives start from an old or a copied checkpoint.

Two directories hold a checkpoint each: `current` is the one that the driver uses, and `spare` is one that may turn out
to be the valid one. The connector promises that a checkpoint which is not the newest loses no rows: it is rejected, or
goes on where the newest one would. So a driver whose checkpoint was rejected continues with the spare one, as its user
would.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.faults.history import read_lines
from tests.faults.network import Network
from tests.faults.node import Node, python_path
from tests.faults.restarts.query import CHECKPOINT, REJECTED
from tests.faults.spark.driver import ROWS_A_BATCH
from tests.faults.spark.session import kill, members

_START_S: Final = 300.0
_TO_END_S: Final = 300.0
_MOMENT_S: Final = (0.5, 6.0)
_BESIDE_S: Final = 12.0
_SAFE_BATCHES: Final = 8
"""A driver that is killed may have decided up to this many micro-batches without noting them."""

_POLL_S: Final = 0.1
_MOST_IN_VAIN: Final = 2

PLAIN, RESTORED, COPIED = "plain", "restored", "copied"
LIVES: Final = (PLAIN, PLAIN, RESTORED, COPIED)
"""The kinds of lives, in order. A restored checkpoint is older than the driver's last life."""


class Drivers:
    """One driver after the other, in the directory `where`; `run` lets them live until `stopping` is set."""

    def __init__(self, network: Network, node: str, where: Path, history: Path, command: list[str], seed: str) -> None:
        self.counts: Final[Counter[str]] = Counter()
        self.failures: Final[list[str]] = []
        self._network, self._node, self._where, self._history = network, node, where, history
        self._command: Final = command
        self._random: Final = random.Random(f"drivers-{seed}")
        self._current: Path = where / "first"
        self._spare: Path | None = None
        self._safe_from = 0
        """The current checkpoint is proven valid once its driver has noted a micro-batch of this number or later."""
        self._in_vain = 0
        """How many drivers in a row were rejected."""
        self._backup: Final = where / "backup"
        self._current.mkdir(parents=True)
        self._alive: Final[list[Node]] = []

    def run(self, stopping: threading.Event, lives: tuple[str, ...] = LIVES) -> None:
        """Start a driver for each kind of life in turn until `stopping` is set, and add errors to `failures`."""
        try:
            number = 0
            while not stopping.is_set():
                self._live(lives[number % len(lives)], stopping)
                number += 1
                self.counts["rounds of lives"] = number // len(lives)
        except (RuntimeError, OSError) as error:
            self.failures.append(f"drivers: {error}")
        finally:
            self.kill()

    def finish(self) -> None:
        """Let a last driver copy the remaining rows. Raises RuntimeError if it fails."""
        while True:
            driver = self._start("last", self._current, "--to-end")
            code = driver.wait(_TO_END_S)
            if code != REJECTED:
                break
            self._turn_to_spare()
        if code != 0:
            raise RuntimeError(f"the last driver ended with {code}; its log lies in {self._where}")

    def second_attempts(self) -> int:
        """Return how many tasks had a second attempt."""
        return sum(len(path.read_text().splitlines()) for path in self._where.glob("*/attempts"))

    def kill(self) -> None:
        """Kill all drivers that are still running."""
        for driver in self._alive:
            _kill(driver)
        self._alive.clear()

    # ---- a life ----------------------------------------------------------------------------------------------------

    def _live(self, kind: str, stopping: threading.Event) -> None:
        beside: Node | None = None
        if kind in (RESTORED, COPIED) and (self._spare is not None or not self._backup.exists()):
            kind = PLAIN
        if kind == RESTORED:
            self._restore()
        if kind == COPIED:
            beside = self._start("copy", self._copied(), "--contended")
        arguments = ["--contended"] if beside is not None else []
        if kind == RESTORED:
            # Otherwise, if more rows wait than fit into a micro-batch, each of them has its former rows again.
            arguments += ["--rows", str(2 * ROWS_A_BATCH)]
        driver = self._start("driver", self._current, *arguments)
        self._until_progress(driver, stopping)
        moment_s = _BESIDE_S if beside is not None else self._random.uniform(*_MOMENT_S)
        over_at = time.monotonic() + moment_s
        while time.monotonic() < over_at and driver.pid is not None and not stopping.is_set():
            time.sleep(_POLL_S)
        if beside is not None:
            self._end(beside, kind)
            self._safe_from = self._newest() + _SAFE_BATCHES
        if self._end(driver, kind) == REJECTED:
            self._turn_to_spare()
            if kind == RESTORED:
                self._spare = None
        elif self._newest(driver.name) >= 0:
            self._in_vain = 0
            self._spare = None if self._newest(driver.name) >= self._safe_from else self._spare
        if self._spare is None:
            self._back_up()

    def _end(self, driver: Node, kind: str) -> int | None:
        """Kill the driver. If it has already ended by itself, return its exit code."""
        code = driver.ended_by_itself
        if code is None:
            _kill(driver)
            self.counts["deaths"] += 1
        elif code == REJECTED and self._spare is not None:
            self.counts["rejected"] += 1
        else:
            self.failures.append(f"a {kind} driver, {driver.name}, ended with {code}")
        self._alive.remove(driver)
        return code

    def _until_progress(self, driver: Node, stopping: threading.Event) -> None:
        """Wait until the driver notes a micro-batch or ends. Raises RuntimeError after _START_S."""
        give_up_at = time.monotonic() + _START_S
        while driver.pid is not None and not stopping.is_set() and self._newest(driver.name) < 0:
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{driver.name} has written no micro-batch within {_START_S:g} s")
            time.sleep(_POLL_S)

    def _newest(self, name: str = "") -> int:
        """Return the number of the newest micro-batch noted by this driver (without `name`, by any), or -1."""
        names = (
            [name]
            if name
            else [path.stem for path in self._history.glob("driver-*")]
            + [path.stem for path in self._history.glob("copy-*")]
        )
        operations = (operation for each in names for operation in read_lines(self._history, each))
        return max((operation["number"] for operation in operations if operation["f"] == "batch"), default=-1)

    def _start(self, name: str, directory: Path, *arguments: str) -> Node:
        self.counts["lives"] += 1
        name = f"{name}-{self.counts['lives']}"
        command = [*self._command, "--process", name, "--directory", str(directory), *arguments]
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": python_path(Path(__file__).parents[3])}
        driver = Node(name, self._network.command(self._node, command), self._where / f"{name}.log", environment)
        driver.start()
        self._alive.append(driver)
        return driver

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def _back_up(self) -> None:
        """Back up the current checkpoint, unless there is a backup already."""
        if (self._current / CHECKPOINT).exists() and not self._backup.exists():
            shutil.copytree(self._current / CHECKPOINT, self._backup)

    def _restore(self) -> None:
        """Use the checkpoint as it was some lives ago."""
        directory = self._new_directory()
        shutil.move(self._backup, directory / CHECKPOINT)
        self._current, self._spare = directory, self._current
        self._safe_from = self._newest() + _SAFE_BATCHES
        self.counts["restored"] += 1

    def _copied(self) -> Path:
        """Copy the checkpoint and return the copy's directory. The copy may turn out to be the valid one."""
        directory = self._new_directory()
        shutil.copytree(self._current / CHECKPOINT, directory / CHECKPOINT)
        self._spare = directory
        self.counts["copied"] += 1
        return directory

    def _new_directory(self) -> Path:
        directory = self._where / f"directory-{self.counts['lives']}"
        directory.mkdir()
        return directory

    def _turn_to_spare(self) -> None:
        """Use the other checkpoint, and keep this one: of two drivers at the same time, both may have been rejected."""
        self._in_vain += 1
        if self._spare is None or self._in_vain > _MOST_IN_VAIN:
            raise RuntimeError(f"every checkpoint was rejected; the drivers' logs lie in {self._where}")
        self._current, self._spare = self._spare, self._current


def _kill(driver: Node) -> None:
    """Kill all processes of the driver, whatever they are doing."""
    pid = driver.pid
    if pid is not None:
        for each in members(pid):
            kill(each)
    driver.kill()
