"""`python -m ottla_controller --node-id 0 …` runs a controller. `config` has all settings."""

from __future__ import annotations

import sys

from ottla_controller.app import build
from ottla_controller.config import ControllerConfig
from ottla_core.process.run import run_service


def main() -> int:
    return run_service("controller", ControllerConfig, build)


if __name__ == "__main__":
    sys.exit(main())
