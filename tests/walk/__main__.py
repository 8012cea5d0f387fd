"""`python -m tests.walk`: README.md and docs/use/sdk.md as a new user meets them. `--borrowed`: no downloads.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.walk.environment import Environment
from tests.walk.pages import jobs, promised, readme_programs, section

from ottla_stack.ports import free_port_base

LINES: Final = [
    line.partition("  #")[0].strip()
    for line in section("README.md", "Use it").partition("```\n")[2].partition("```")[0].splitlines()
]
PROGRAMS: Final = readme_programs()
JOBS: Final = jobs()
_READY_LIMIT_S: Final = 180.0
_STOP_LIMIT_S: Final = 120.0
_REMADE: Final = """
import ottla
with ottla.Admin() as admin:
    for topic in admin.topics.list():
        admin.topics.delete(topic)
    admin.topics.create("orders", partitions=3)
"""


@contextmanager
def up(environment: Environment, line: str) -> Iterator[None]:
    """The line that starts the stack, on ports that are free; until it is ready, and ended by Ctrl-C."""
    base = free_port_base()
    log = environment.home / "up.log"
    with log.open("w") as output:
        running = subprocess.Popen(
            ["bash", "-c", f"exec {line} --port-base {base}"],
            cwd=environment.home,
            env=environment.variables,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
    try:
        give_up_at = time.monotonic() + _READY_LIMIT_S
        while (ready := re.search(r"bootstrap (\S+);", log.read_text())) is None:
            assert running.poll() is None, f"`{line}` has ended:\n{log.read_text()}"
            assert time.monotonic() < give_up_at, f"`{line}` is not ready:\n{log.read_text()}"
            time.sleep(0.1)
        environment.variables["OTTLA_BOOTSTRAP"] = ready[1]
        yield
    finally:
        running.send_signal(signal.SIGINT)
        try:
            ended = running.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    assert ended in (0, 130), log.read_text()


def follow(environment: Environment) -> int:
    """Run the README's lines and programs against a stack that is up; return how many.

    Raises AssertionError at the first line that does not do what it says.
    """
    said = [environment.shell(line) for line in LINES[2:]]
    assert '{"id": 1}' in said[-1], said
    for source in PROGRAMS:
        environment.python(source)
    return len(said) + len(PROGRAMS)


def walk(directory: Path, *, borrowed: bool = False, package: Path | None = None) -> dict[str, object]:
    """AssertionError at the first line that does not do what it says."""
    began = time.monotonic()
    install, start = LINES[:2]
    assert install.startswith("pip install "), install
    environment = Environment(directory, borrowed=borrowed, package=package)
    environment.install(install)
    installed_s = time.monotonic() - began
    print(f"{install}: {installed_s:.0f} s", flush=True)
    with up(environment, start):
        followed = follow(environment)
        print(f"README: {len(LINES)} lines and {len(PROGRAMS)} programs", flush=True)
        if not borrowed:
            environment.install("pip install '.[arrow]'")
        for title, source in JOBS:
            environment.python(_REMADE)
            printed = environment.python(source).splitlines()
            assert printed == promised(source), f"{title}: {printed} instead of {promised(source)}"
        print(f"docs/use/sdk.md: {len(JOBS)} programs", flush=True)
    return {
        "readme_commands": followed + 2,
        "lines": len(LINES),
        "programs": len(PROGRAMS),
        "jobs": len(JOBS),
        "install_s": round(installed_s, 1),
        "seconds": round(time.monotonic() - began, 1),
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--borrowed", action="store_true", help="download nothing")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ottla-walk-") as directory:
        try:
            print(json.dumps(walk(Path(directory), borrowed=given.borrowed)))
        except AssertionError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
