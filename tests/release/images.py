"""The images of a release: built, tagged with the version, and used as the README says."""

from __future__ import annotations

import re
from typing import Final

from tests.compose.base_image import ROOT, base_image
from tests.compose.project import Project
from tests.hosts.engine import compose_command, docker_engine
from tests.hosts.shell import run, say
from tests.walk.__main__ import follow
from tests.walk.environment import Environment

PROFILES: Final = ("tools", "load", "mirror", "spark")
_UP_LIMIT_S: Final = 90.0
_BOOTSTRAP: Final = "localhost:9092"


def built_and_used(version: str, environment: Environment) -> tuple[list[str], int]:
    """Build and tag the images, start the stack from them, and follow the README against it.

    `environment` has the release installed. Returns the tags, and how many commands and programs of the README ran.
    """
    with docker_engine():
        project = Project(compose_command(), base_image())
        say(f"images built in {project.build(PROFILES):.0f} s")
        tags = [_tagged(name, version) for name in images()]
        project.down(volumes=True)
        try:
            say(f"the stack is healthy after {project.up(_UP_LIMIT_S):.1f} s")
            environment.variables["OTTLA_BOOTSTRAP"] = _BOOTSTRAP
            followed = follow(environment)
        finally:
            project.down(volumes=True)
    return tags, followed


def images() -> list[str]:
    """Return the names of our images."""
    return sorted(set(re.findall(r"^ *image: (ottla-\S+)$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE)))


def _tagged(image: str, version: str) -> str:
    run(["docker", "tag", image, f"{image}:{version}"])
    return f"{image}:{version}"
