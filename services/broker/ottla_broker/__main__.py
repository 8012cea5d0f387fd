"""`python -m ottla_broker --data-dir D …`; what else there is: `config`."""

from __future__ import annotations

import sys

from ottla_broker.app import build
from ottla_broker.config import BrokerConfig
from ottla_core import config, lifecycle, telemetry
from ottla_core.errors import OttlaError


def main() -> int:
    try:
        settings = config.load(BrokerConfig, "broker", sys.argv[1:])
    except OttlaError as error:
        print(f"ottla-broker: {error}", file=sys.stderr)
        return 2
    telemetry.configure_logging(f"broker-{settings.node_id}", level=settings.log_level)
    return lifecycle.run(lambda: build(settings))


if __name__ == "__main__":
    sys.exit(main())
