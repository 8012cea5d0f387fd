"""`python -m ottla_controller --node-id 0 …`; what else there is: `config`."""

from __future__ import annotations

import sys

from ottla_controller.app import build
from ottla_controller.config import ControllerConfig
from ottla_core import config, lifecycle, telemetry
from ottla_core.errors import OttlaError


def main() -> int:
    try:
        settings = config.load(ControllerConfig, "controller", sys.argv[1:])
    except OttlaError as error:
        print(f"ottla-controller: {error}", file=sys.stderr)
        return 2
    telemetry.configure_logging(f"controller-{settings.node_id}", level=settings.log_level)
    return lifecycle.run(lambda: build(settings))


if __name__ == "__main__":
    sys.exit(main())
