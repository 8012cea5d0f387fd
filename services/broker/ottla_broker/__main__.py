"""`python -m ottla_broker --node-id 0 …` runs a broker. `config` has all settings."""

from __future__ import annotations

import sys

from ottla_broker.app import build
from ottla_broker.config import BrokerConfig
from ottla_core.process.run import run_service


def main() -> int:
    return run_service("broker", BrokerConfig, build)


if __name__ == "__main__":
    sys.exit(main())
