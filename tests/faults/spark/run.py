"""A run: the driver is started, killed and started again until every kill was made, and then left to finish."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.faults.node import Node, python_path
from tests.faults.spark.copy import PARTITIONS, Findings, check, read_rows, write_rows
from tests.faults.spark.driver import ROWS_A_BATCH
from tests.faults.spark.mutants import MUTANT, MUTANTS
from tests.faults.spark.schedule import Kill, Life
from tests.faults.spark.services import Services
from tests.faults.spark.session import kill, members
from tests.faults.spark.steps import SWITCHBOARD
from tests.faults.spark.switchboard import Switchboard

import ottla

_BATCHES_A_KILL: Final = 2
_BATCHES_MORE: Final = 4
_LIFE_LIMIT_S: Final = 900.0
_MOST_LIVES_IN_VAIN: Final = 3
_LONGEST_MOMENT_S: Final = 1.5
_POLL_S: Final = 0.05
_GRACE_S: Final = 5.0


@dataclass(slots=True)
class SparkResult:
    kills: Sequence[Kill]
    lives: int
    seconds: float
    findings: Findings
    failures: list[str] = field(default_factory=list)


class SparkRun:
    """Copies `source` to `target`, both made here, with a driver in processes of its own; notes lie in `directory`."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        name: str,
        *,
        seed: int,
        mutant: str = "",
        options: Mapping[str, object] = MappingProxyType({}),
        services: Services | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self._bootstrap: Final = bootstrap
        self._directory: Final = directory
        self._source, self._target = f"{name}-source", f"{name}-target"
        self._chance: Final = random.Random(f"moments-{seed}")
        self._board: Final = Switchboard(directory / "history.jsonl", services)
        command = [sys.executable, "-m", "tests.faults.spark.driver", "--bootstrap", bootstrap]
        environment = {SWITCHBOARD: str(self._board.port), "SPARK_LOCAL_IP": "127.0.0.1"}
        if mutant:
            environment[MUTANT] = mutant
            options = MUTANTS[mutant].options
            command += ["--queries", str(MUTANTS[mutant].queries)]
        self._is_exactly_once: Final = options.get("delivery") == "exactly_once"
        command += ["--options", json.dumps({**options})]
        command += ["--source", self._source, "--target", self._target, "--directory", str(directory)]
        environment["PYTHONPATH"] = python_path(Path(__file__).parents[3])
        log = directory / "driver.log"
        self._driver: Final = Node("driver", command, log, environment)
        self._driver_of_executors: Final = Node("driver", [*command, "--executors"], log, environment)
        self._written = 0
        self._lives = 0

    def run(self, lives: Sequence[Life]) -> SparkResult:
        """Each life with its kills, and one without, unless the last of them all has spared the driver."""
        began_at = time.monotonic()
        failures: list[str] = []
        try:
            with ottla.Admin(self._bootstrap) as admin:
                for topic in (self._source, self._target):
                    admin.topics.create(topic, partitions=PARTITIONS)
            self._live_through(lives)
        except RuntimeError as error:
            failures.append(str(error))
        else:
            failures += self._left_over() if self._is_exactly_once else []
        finally:
            self._board.close()
        findings = check(read_rows(self._bootstrap, self._target), self._written)
        failures += [] if findings.clean else findings.examples
        if findings.repeated and self._is_exactly_once:
            failures.append(f"{findings.repeated} rows are there more than once")
        return SparkResult(self._board.kills, self._lives, time.monotonic() - began_at, findings, failures)

    def _live_through(self, lives: Sequence[Life]) -> None:
        for life in lives:
            in_vain = 0
            while life.kills:
                self._write_more(_BATCHES_A_KILL * len(life.kills) + _BATCHES_MORE)
                left = self._live(life)
                in_vain = in_vain + 1 if left == life.kills else 0
                if in_vain == _MOST_LIVES_IN_VAIN:
                    raise RuntimeError(f"{left[0]} could not be made; see {self._directory}")
                life = life._replace(kills=left)
        kills = [kill for life in lives for kill in life.kills]
        if not kills or kills[-1].ends_life:
            self._write_more(_BATCHES_MORE)  # a query ends what is left of the last micro-batch in the next one
            self._live(Life([]))
        if self._driver.ended_by_itself != 0:
            raise RuntimeError(f"nobody was killed, and the driver did not end well; see {self._directory}/driver.log")

    def _write_more(self, batches: int) -> None:
        count = batches * ROWS_A_BATCH // PARTITIONS
        write_rows(self._bootstrap, self._source, self._written, count)
        self._written += count

    def _left_over(self) -> list[str]:
        """In words, what is not over in the copy, and the ids that tasks of former runs of the query have left."""
        query = json.loads((self._directory / "checkpoint" / "metadata").read_text())["id"]
        with ottla.Admin(self._bootstrap) as admin:
            ids = admin.transactions.list(prefix=f"spark-{query}-")
            opened = admin.transactions.open_in(self._target)
        left = [
            f"{each.name} is left: {each.state}" for each in ids if not each.state.startswith(("Complete", "Empty"))
        ]
        if len(runs := {each.name.rsplit("-", 2)[0] for each in ids}) > 1:
            left.append(f"ids of {len(runs)} runs are left: {', '.join(sorted(each.name for each in ids))}")
        return left + [f"{each.partition} has open transactions: {each.open}" for each in opened if each.is_blocked]

    def _live(self, life: Life) -> list[Kill]:
        """What is left of the life's kills once the driver has ended."""
        self._lives += 1
        driver = self._driver_of_executors if life.executors else self._driver
        driver.start()
        session = driver.pid
        assert session is not None
        self._board.begin(life.kills, session)
        end_at = time.monotonic() + _LIFE_LIMIT_S
        try:
            while driver.pid is not None and not self._board.holds:
                if time.monotonic() > end_at:
                    raise RuntimeError(f"the driver did not end within {_LIFE_LIMIT_S:g} s; see {self._directory}")
                if self._board.awaits_moment:
                    time.sleep(self._chance.uniform(0.0, _LONGEST_MOMENT_S))
                    self._board.kill_now()
                time.sleep(_POLL_S)
        finally:
            is_held = self._board.holds
            left = self._board.end()
            if not is_held:
                _end(session)
        if not is_held:
            self._board.free_zombie()
        return left


def _end(session: int) -> None:
    """What the driver has left behind goes by itself, or else is killed."""
    end_at = time.monotonic() + _GRACE_S
    while (left := members(session)) and time.monotonic() < end_at:
        time.sleep(_POLL_S)
    for pid in left:
        kill(pid)
