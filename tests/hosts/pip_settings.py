"""What this host's pip is told about its package index, for hosts that a proof makes."""

from __future__ import annotations

import os
import shlex
import ssl
import sys
from functools import cache
from typing import Final

from tests.hosts.shell import run

BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian keeps its CA bundle."""
_SETTINGS: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")


def ca_bundle() -> str:
    """Return the file of the CA bundle that this host trusts."""
    return _settings().get("cert") or ssl.get_default_verify_paths().cafile or BUNDLE


def pip_conf() -> str:
    """Return a pip.conf with this host's settings and Debian's place for the CA bundle."""
    settings = {name: value for name, value in _settings().items() if name != "cert"}
    return "\n".join(["[global]", f"cert = {BUNDLE}", *(f"{name} = {value}" for name, value in settings.items()), ""])


@cache
def _settings() -> dict[str, str]:
    """Return pip's settings by name. The environment is listed before files, and wins."""
    found: dict[str, str] = {}
    for line in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        place, _, value = line.partition("=")
        name = place.rpartition(".")[2].removeprefix("default-")
        if name in (*_SETTINGS, "cert"):
            found.setdefault(name, shlex.split(value)[0])
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    return {**({"proxy": proxy} if proxy else {}), **found}
