"""Programs that run in a container which has nothing of the stack, or nothing but the keys of one other container."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.compose.project import NAME
from tests.hosts.shell import run

KEYS: Final = "/run/ottla"
NETWORK: Final = f"{NAME}_default"
_IMAGE: Final = "ottla-cli"
_LIMIT_S: Final = 180.0


def visit(program: Path, *arguments: str, keys_of: str | None = None) -> str:
    """Run a program on the network of the stack, and return its output."""
    return run_python(program.read_text(), *arguments, keys_of=keys_of)


def run_python(
    program: str, *arguments: str, network: str = NETWORK, keys_of: str | None = None, user: str = "10001:10001"
) -> str:
    mounted = [] if keys_of is None else ["-v", f"{NAME}_{keys_of}-keys:{KEYS}"]
    command = ["docker", "run", "--rm", "--network", network, "--user", user, *mounted, "--entrypoint", "python"]
    return run([*command, _IMAGE, "-c", program, *arguments], timeout_s=_LIMIT_S)
