"""A Docker Engine for the proof: the one that runs, else Debian's own, started here and stopped again at the end.

Debian's packages are installed where they are missing; that needs root and stays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.hosts.shell import ProofError, run, say, wait_for, works

_START_S: Final = 60.0
_STOP_S: Final = 60.0


@contextmanager
def docker_engine() -> Iterator[None]:
    """Inside the block an engine answers to `docker`."""
    if answers():
        say("a Docker Engine runs already")
        yield
        return
    if shutil.which("dockerd") is None:
        install("docker.io", "iptables", "tini")
    if answers():  # Debian's package starts it where there is an init system
        yield
        return
    if os.geteuid() != 0:
        raise ProofError("no Docker Engine answers; start it, or run this as root")
    with _started():
        yield


def answers() -> bool:
    return works(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=20)


def compose_command() -> list[str]:
    """`docker compose` (v2) or `docker-compose`, of any version; Debian's where there is none."""
    if works(["docker", "compose", "version"]):
        return ["docker", "compose"]
    if shutil.which("docker-compose") is None:
        install("docker-compose")
    return ["docker-compose"]


def install(*packages: str) -> None:
    """From Debian, as this machine's apt is configured. Raises ProofError where that is not possible."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ProofError(f"{', '.join(packages)} can't be installed here: that needs root on Debian")
    say(f"installing {', '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], timeout_s=300, environment=quiet)
    run(["apt-get", "install", "-qq", "--no-install-recommends", *packages], timeout_s=600, environment=quiet)


@contextmanager
def _started() -> Iterator[None]:
    with tempfile.NamedTemporaryFile(prefix="dockerd-", suffix=".log") as log:
        daemon = subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            seconds = wait_for(lambda: answers() or daemon.poll() is not None, "answer of dockerd", limit_s=_START_S)
            if daemon.poll() is not None:
                last_words = Path(log.name).read_text(errors="replace").splitlines()[-5:]
                raise ProofError("dockerd ended instead of starting:\n" + "\n".join(last_words))
            say(f"started dockerd, {seconds:.1f} s")
            yield
        finally:
            daemon.terminate()
            try:
                daemon.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
            say("stopped dockerd")
