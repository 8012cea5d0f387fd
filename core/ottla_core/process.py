"""The life of a service's process, from its command line to its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla_core import config, lifecycle, telemetry
from ottla_core.errors import OttlaError


class ServiceSettings(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def log_level(self) -> str: ...


Settings = TypeVar("Settings", bound=ServiceSettings)


def run_service(kind: str, settings_type: type[Settings], build: Callable[[Settings], lifecycle.App]) -> int:
    """Read the settings of section `kind` and live until a signal or a failure: 0, 1, or 2 for bad settings."""
    try:
        settings = config.load(settings_type, kind, sys.argv[1:])
    except OttlaError as error:
        print(f"ottla-{kind}: {error}", file=sys.stderr)
        return 2
    telemetry.configure_logging(f"{kind}-{settings.node_id}", level=settings.log_level)
    return lifecycle.run(lambda: build(settings))
