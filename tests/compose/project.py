"""The compose project of the proof: docker-compose.yml under a name of its own, and what Docker says of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from tests.compose.base_image import ROOT
from tests.hosts.shell import run, say, wait_for, works

NAME: Final = "ottla-prove"
_LABEL: Final = "com.docker.compose"
_BUILD_S: Final = 1200.0
_PROFILES: Final = ("tools", "load", "observe")
_ALL_PROFILES: Final = (*_PROFILES, "spark", "mirror")

CRASH: Final = """
import os, signal
for pid in filter(str.isdecimal, os.listdir("/proc")):
    parent = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]
    if parent == "1":
        os.kill(int(pid), signal.SIGKILL)
"""
"""Run inside a container: the service dies under its init, as by a crash; `docker kill` counts as a manual stop."""


@dataclass(frozen=True, slots=True)
class Container:
    id: str
    service: str
    status: str
    health: str
    restarts: int
    ports: Mapping[str, tuple[str, str]]  # "9092/tcp" → (host address, host port)
    started: str
    exit_code: int

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """From what `docker inspect` says."""
        state, published = described["State"], described["NetworkSettings"]["Ports"] or {}
        return cls(
            described["Id"],
            described["Config"]["Labels"][f"{_LABEL}.service"],
            state["Status"],
            state.get("Health", {}).get("Status", "none"),
            described["RestartCount"],
            {port: (to[0]["HostIp"], to[0]["HostPort"]) for port, to in published.items() if to},
            state["StartedAt"],
            state["ExitCode"],
        )

    @property
    def is_well(self) -> bool:
        """Whether it is healthy, or had only one thing to do and has done it."""
        return self.health == "healthy" or (self.health, self.status, self.exit_code) == ("none", "exited", 0)


class Project:
    def __init__(self, compose: list[str], base_image: str, files: Iterable[str] = ("docker-compose.yml",)) -> None:
        named = [word for name in files for word in ("-f", str(ROOT / name))]
        self._compose = [*compose, "-p", NAME, *named]
        self._environment = {"BASE_IMAGE": base_image}
        if not works(["docker", "buildx", "version"]):
            self._environment["DOCKER_BUILDKIT"] = "0"

    def build(self, profiles: Iterable[str] = _PROFILES) -> float:
        """Every image of ours that is in no profile or in one of these; seconds."""
        began_at = time.monotonic()
        self(*_named(profiles), "build", timeout_s=_BUILD_S)
        return time.monotonic() - began_at

    def up(self, limit_s: float) -> float:
        """Seconds until every container is healthy by its own check."""
        began_at = time.monotonic()
        self("up", "-d", timeout_s=limit_s)
        wait_for(self.all_healthy, f"healthy stack ({self.describe()})", limit_s=limit_s)
        return time.monotonic() - began_at

    def run(self, service: str, *arguments: str, timeout_s: float = 120, **environment: str) -> str:
        """One container of a service in a profile, inside the network; what it prints."""
        given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        return self("run", "--rm", "-T", *given, service, *arguments, timeout_s=timeout_s)

    def python(self, service: str, program: str, *arguments: str, timeout_s: float = 120) -> str:
        """A Python program in a container of that service's image, inside the network; what it prints."""
        command = ("--entrypoint", "python", service, "-c", program, *arguments)
        return self("run", "--rm", "-T", *command, timeout_s=timeout_s)

    def down(self, *, volumes: bool) -> None:
        """Containers and network go; volumes too where it is said. Also what an earlier run left of this project."""
        self(*_named(_ALL_PROFILES), "down", "--remove-orphans", *(["-v"] if volumes else []), timeout_s=180)

    def containers(self) -> dict[str, Container]:
        ids = run(["docker", "ps", "-aq", *_of_project(), "--filter", f"label={_LABEL}.oneoff=False"]).split()
        described = json.loads(run(["docker", "inspect", *ids])) if ids else []
        return {c.service: c for c in map(Container.of, described)}

    def all_healthy(self) -> bool:
        containers = self.containers()
        return bool(containers) and all(c.is_well for c in containers.values())

    def describe(self) -> str:
        return ", ".join(f"{c.service} {c.status}/{c.health}" for c in self.containers().values()) or "nothing runs"

    def volumes(self) -> list[str]:
        return sorted(run(["docker", "volume", "ls", "-q", *_of_project()]).split())

    def resident_mb(self) -> float:
        """All processes of all containers, in units of 10^6 bytes. Shared pages count once for each process."""
        return sum(sum(_resident_kib(c.id)) for c in self.containers().values()) * 1024 / 1e6

    def kill(self, service: str) -> None:
        run(["docker", "kill", self.containers()[service].id])

    def crash(self, service: str) -> None:
        """Kill the service inside its container, which its restart policy then starts again."""
        works(["docker", "exec", self.containers()[service].id, "python", "-c", CRASH])

    def log(self, service: str) -> str:
        """All that it has said so far."""
        return _log(self.containers()[service].id)

    def tell_logs(self, lines: int = 20) -> None:
        for container in self.containers().values():
            say(f"the last lines of {container.service}:")
            print(_log(container.id, lines))

    def __call__(self, *arguments: str, timeout_s: float = 60) -> str:
        return run([*self._compose, *arguments], timeout_s=timeout_s, environment=self._environment)


def _named(profiles: Iterable[str]) -> list[str]:
    return [word for name in profiles for word in ("--profile", name)]


def _log(container_id: str, lines: int | None = None) -> str:
    """Both of its streams; the last lines, or all."""
    tail = "all" if lines is None else str(lines)
    return run(["sh", "-c", 'docker logs --tail "$1" "$2" 2>&1', "sh", tail, container_id])


def _of_project() -> Iterable[str]:
    return "--filter", f"label={_LABEL}.project={NAME}"


def _resident_kib(container_id: str) -> list[int]:
    rows = run(["docker", "top", container_id, "-eo", "pid,rss"]).splitlines()[1:]
    return [int(row.split()[1]) for row in rows]
