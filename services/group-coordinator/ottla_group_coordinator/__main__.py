"""`python -m ottla_group_coordinator --node-id 0 …` runs a group-coordinator. `config` has all settings."""

from __future__ import annotations

import sys

from ottla_core.process.run import run_service
from ottla_group_coordinator.app import build
from ottla_group_coordinator.config import GroupCoordinatorConfig


def main() -> int:
    return run_service("group-coordinator", GroupCoordinatorConfig, build)


if __name__ == "__main__":
    sys.exit(main())
