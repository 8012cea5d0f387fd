"""`python -m ottla_broker --node-id 0 …`; what else there is to set: `config`."""

from __future__ import annotations

import sys

from ottla_broker.app import build
from ottla_broker.config import BrokerConfig
from ottla_core.process.run import run_service


def main() -> int:
    return run_service("broker", BrokerConfig, build)


if __name__ == "__main__":
    sys.exit(main())
