"""A standalone Spark cluster on this machine: a master and workers, each a JVM of its own, of the jars in PySpark."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from peers.jvm import SHORT_LIVED
from peers.place import PeerError, program

_HOME: Final = Path(pyspark.__file__).parent
_LOOPBACK: Final = "127.0.0.1"
_ANY_PORT: Final = ("--port", "0", "--webui-port", "0")
_JVM: Final = (*SHORT_LIVED, "-Xmx256m", "-Dspark.master.rest.enabled=false")
"""JVM options of the master and the workers, which only start and watch executors."""
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_READY_LIMIT_S: Final = 90.0
_STOP_LIMIT_S: Final = 20.0
_TAIL_CHARS: Final = 2000


class StandaloneCluster:
    """`with StandaloneCluster(directory, workers=2) as cluster:` takes applications at `cluster.master`.

    What its processes say is in `<name>.log` there, what executors say in `<name>/app-…/…/stderr`. The directory is the
    caller's, and has to be new.
    """

    def __init__(
        self, directory: Path, *, workers: int, cores: int = 1, memory_mb: int = 1024, host: str = _LOOPBACK
    ) -> None:
        """Describe a cluster. Each worker has `cores` cores, and gives executors `memory_mb` in all. All processes
        serve each other on `host`, and their web pages on 127.0.0.1."""
        self.master = ""
        """The URL, once it runs."""
        self.directory: Final = directory
        self._host: Final = host
        self._workers: Final = [f"worker-{number}" for number in range(workers)]
        self._shape: Final = ("--cores", str(cores), "--memory", f"{memory_mb}m")
        self._running: Final[dict[str, subprocess.Popen[bytes]]] = {}

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        try:
            self._start("master", _MASTER)
            self.master = self._said("master", r"Starting Spark master at (spark://\S+)")
            for name in self._workers:
                self._start(name, _WORKER, *self._shape, "--work-dir", str(self.directory / name), self.master)
            for name in self._workers:
                self._said(name, r"Successfully registered with master (\S+)")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def daemons(self) -> list[int]:
        """The pids of the master and the workers."""
        return [process.pid for process in self._running.values()]

    def executors(self) -> list[int]:
        """The pids of the executors that run now, each the child of a worker."""
        listed = [each for pid in self.daemons() for each in Path(f"/proc/{pid}/task").glob("*/children")]
        found: list[int] = []
        for children in listed:
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                found += map(int, children.read_text().split())
        return found

    def applications(self, worker: int) -> list[str]:
        """The ids of those that have had an executor on that worker."""
        return sorted(path.name for path in (self.directory / self._workers[worker]).glob("app-*"))

    def _start(self, name: str, main: str, *arguments: str) -> None:
        java = program("java", "openjdk-17-jre-headless")
        command = [java, *_JVM, "-cp", f"{_HOME}/jars/*", main, "--host", self._host, *_ANY_PORT, *arguments]
        environment = {**os.environ, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": _LOOPBACK}
        environment["SPARK_SCALA_VERSION"] = _scala_version()  # or else a worker looks for a checkout of Spark
        with (self.directory / f"{name}.log").open("wb") as output:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def _said(self, name: str, pattern: str) -> str:
        """What the pattern's group is in the process' log. Raises PeerError where it ends, or takes too long."""
        log = self.directory / f"{name}.log"
        give_up_at = time.monotonic() + _READY_LIMIT_S
        while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
            ended = self._running[name].poll()
            if ended is not None or time.monotonic() > give_up_at:
                why = f"ended with {ended}" if ended is not None else f"is not ready after {_READY_LIMIT_S:g} s"
                raise PeerError(f"Spark's {name} {why}:\n{log.read_text(errors='replace')[-_TAIL_CHARS:]}")
            time.sleep(0.05)
        return found[1]

    def _stop(self) -> None:
        """Workers first, which end their executors; what is left of anybody's process group is killed."""
        for name in (*self._workers, "master"):
            if (process := self._running.pop(name, None)) is None:
                continue
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_STOP_LIMIT_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _scala_version() -> str:
    """The one that PySpark's jars are built for; it stands in their names."""
    return next(_HOME.glob("jars/spark-core_*.jar")).name.removeprefix("spark-core_").partition("-")[0]
