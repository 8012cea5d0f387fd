"""The stories, one module for each part of the product; each module has its own in `STORIES`."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import MappingProxyType
from typing import Final

from tests.regressions.story import by_name

ALL: Final = MappingProxyType(
    by_name(
        story
        for module in pkgutil.iter_modules(__path__)
        for story in import_module(f"{__name__}.{module.name}").STORIES
    )
)
