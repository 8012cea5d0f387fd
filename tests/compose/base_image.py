"""The BASE_IMAGE of the proof: the Dockerfile's own where a registry has it, else Debian bookworm from its mirror.

Both are kept by name, so that a second run is quick. On top comes what this host needs to reach its package index: its
CA bundle and pip's settings. They are taken from the host's own configuration and stay in images of this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine import install
from shell import ProofError, run, say, works

ROOT: Final = Path(__file__).parents[2]

DEBOOTSTRAPPED: Final = "ottla-base:bookworm"
_SUITE: Final = "bookworm"  # its python3 is 3.11
_PACKAGES: Final = "python3,python3-venv,ca-certificates"
CONFIGURED: Final = "ottla-base:configured"
_BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
_PIP_SETTINGS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")


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
    if os.geteuid() != 0:
        raise ProofError(f"{default_base()} can't be pulled, and a base image can be made only by root on Debian")
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    with tempfile.TemporaryDirectory(prefix="ottla-base-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root), _debian_mirror()]
        run(command, timeout_s=900, environment=_apt_proxy())
        for litter in [*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")]:
            litter.unlink()
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run(["docker", "import", "-", name], stdin=packed.stdout, stdout=subprocess.DEVNULL, check=True)


def _debian_mirror() -> str:
    """The archive that this host's own apt uses."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian", "Component: main"]
    found = run(asked).split()
    if not found:
        raise ProofError("this host's apt knows no Debian archive; run apt-get update")
    return found[0]


def _apt_proxy() -> Mapping[str, str]:
    """apt's proxy for those who speak HTTP by themselves, as debootstrap does."""
    said = run(["apt-config", "shell", "PROXY", "Acquire::http::Proxy"])
    _, _, proxy = said.partition("=")
    return {"http_proxy": shlex.split(proxy)[0]} if proxy.strip() else {}


def _configured(base: str) -> str:
    """`base` with this host's CA bundle and pip settings. Docker's cache makes it once for each state of the two."""
    settings = _pip_settings()
    bundle = settings.pop("cert", None) or ssl.get_default_verify_paths().cafile or _BUNDLE
    lines = ["[global]", f"cert = {_BUNDLE}", *(f"{name} = {value}" for name, value in settings.items())]
    with tempfile.TemporaryDirectory(prefix="ottla-base-") as folder:
        context = Path(folder)
        shutil.copyfile(bundle, context / "bundle.crt")
        (context / "pip.conf").write_text("\n".join(lines) + "\n")
        (context / "Dockerfile").write_text(f"FROM {base}\nCOPY bundle.crt {_BUNDLE}\nCOPY pip.conf /etc/pip.conf\n")
        run(["docker", "build", "-q", "-t", CONFIGURED, folder], timeout_s=120, environment={"DOCKER_BUILDKIT": "0"})
    return CONFIGURED


def _pip_settings() -> dict[str, str]:
    """What pip on this host is told about its index, by files or by the environment, which is listed first and wins."""
    found: dict[str, str] = {}
    for line in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        place, _, value = line.partition("=")
        name = place.rpartition(".")[2].removeprefix("default-")
        if name in (*_PIP_SETTINGS, "cert"):
            found.setdefault(name, shlex.split(value)[0])
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    return {**({"proxy": proxy} if proxy else {}), **found}
