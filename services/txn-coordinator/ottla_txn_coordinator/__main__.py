"""`python -m ottla_txn_coordinator --node-id 0 …` runs a txn-coordinator. `config` has all settings."""

from __future__ import annotations

import sys

from ottla_core.process.run import run_service
from ottla_txn_coordinator.app import build
from ottla_txn_coordinator.config import TxnCoordinatorConfig


def main() -> int:
    return run_service("txn-coordinator", TxnCoordinatorConfig, build)


if __name__ == "__main__":
    sys.exit(main())
