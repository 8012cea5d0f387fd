"""The BASE_IMAGE of the proof: the Dockerfile's own where a registry has it, else Debian bookworm from its mirror.

Both are kept by name, so that a second run is quick. On top comes what this host needs to reach its package index: its
CA bundle and pip's settings. They are taken from the host's own configuration and stay in images of this machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.hosts.debian import debootstrap
from tests.hosts.pip_settings import BUNDLE, ca_bundle, pip_conf
from tests.hosts.shell import ProofError, run, say, works

ROOT: Final = Path(__file__).parents[2]

DEBOOTSTRAPPED: Final = "ottla-base:bookworm"
_SUITE: Final = "bookworm"  # its python3 is 3.11
_PACKAGES: Final = "python3,python3-venv,ca-certificates"
CONFIGURED: Final = "ottla-base:configured"


def base_image() -> str:
    """The name of a base image from which the Dockerfile builds on this host."""
    wanted = default_base()
    if works(["docker", "image", "inspect", wanted]) or works(["docker", "pull", "-q", wanted], timeout_s=600):
        base = wanted
    else:
        base = DEBOOTSTRAPPED
        if works(["docker", "image", "inspect", base]):
            say(f"no registry has {wanted}; the base image is {base}, made earlier")
        else:
            say(f"no registry has {wanted}; making {base} with debootstrap")
            _debootstrap(base)
            say(f"{base} made")
    return _configured(base)


def default_base() -> str:
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    if found is None:
        raise ProofError("the Dockerfile has no ARG BASE_IMAGE with a default")
    return found[1]


def _debootstrap(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ottla-base-") as folder:
        root = Path(folder) / "root"
        debootstrap(_SUITE, root, _PACKAGES)
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run(["docker", "import", "-", name], stdin=packed.stdout, stdout=subprocess.DEVNULL, check=True)


def _configured(base: str) -> str:
    """Return `base` with this host's CA bundle and pip settings; Docker caches the result."""
    with tempfile.TemporaryDirectory(prefix="ottla-base-") as folder:
        context = Path(folder)
        shutil.copyfile(ca_bundle(), context / "bundle.crt")
        (context / "pip.conf").write_text(pip_conf())
        (context / "Dockerfile").write_text(f"FROM {base}\nCOPY bundle.crt {BUNDLE}\nCOPY pip.conf /etc/pip.conf\n")
        run(["docker", "build", "-q", "-t", CONFIGURED, folder], timeout_s=120, environment={"DOCKER_BUILDKIT": "0"})
    return CONFIGURED
