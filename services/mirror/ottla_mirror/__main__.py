"""`python -m ottla_mirror --file mirror.toml …` runs a mirror. `config` has all settings."""

from __future__ import annotations

import sys

from ottla_core.process.run import run_service
from ottla_mirror.app import build
from ottla_mirror.config import MirrorConfig


def main() -> int:
    return run_service("mirror", MirrorConfig, build)


if __name__ == "__main__":
    sys.exit(main())
