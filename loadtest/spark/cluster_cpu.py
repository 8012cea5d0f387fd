"""CPU time of a job on a standalone cluster, by who used it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from peers.spark.session import jvm_pid
from peers.spark.standalone import StandaloneCluster
from pyspark.sql import SparkSession

from loadtest.spark.processes import cpu_seconds
from ottla_stack.running import RunningStack


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """The CPU seconds of each kind of process, summed over all processes of that kind."""

    broker: float = 0.0
    jvm: float = 0.0
    """The JVMs of executors."""
    python: float = 0.0
    """The workers that executors start."""
    driver: float = 0.0
    """Its JVM, and the Python that it plans with."""
    daemons: float = 0.0
    """The master and the workers, without the executors."""

    @property
    def executors(self) -> float:
        """What a worker's cores are used for."""
        return self.jvm + self.python

    def __add__(self, other: Self) -> CpuSeconds:
        return CpuSeconds(*(mine + theirs for mine, theirs in zip(_values(self), _values(other), strict=True)))

    def scaled(self, factor: float) -> CpuSeconds:
        """Each of them times that."""
        return CpuSeconds(*(each * factor for each in _values(self)))


class CpuMeter:
    """Reads what they have used so far. Executors have to run, and to stay, from the first reading to the last."""

    def __init__(self, stack: RunningStack, cluster: StandaloneCluster, session: SparkSession) -> None:
        self._brokers: Final = [stack.pid(f"broker-{number}") for number in range(stack.plan.brokers)]
        self._daemons: Final = cluster.daemons()
        self._executors: Final = cluster.executors()
        self._driver: Final = jvm_pid(session)

    def read(self) -> CpuSeconds:
        """Since each process began."""
        jvm = sum(map(_own_seconds, self._executors))
        return CpuSeconds(
            broker=sum(map(cpu_seconds, self._brokers)),
            jvm=jvm,
            python=sum(map(cpu_seconds, self._executors)) - jvm,
            driver=cpu_seconds(self._driver),
            daemons=sum(map(_own_seconds, self._daemons)),
        )


def _values(cpu: CpuSeconds) -> tuple[float, ...]:
    return cpu.broker, cpu.jvm, cpu.python, cpu.driver, cpu.daemons


def _own_seconds(pid: int) -> float:
    """So far, of the process alone. Raises OSError where it has ended."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
