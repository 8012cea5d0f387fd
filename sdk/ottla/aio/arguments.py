"""A facade's constructor takes what the client's does, for people, editors and type checkers alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

P = ParamSpec("P")


def same_arguments(
    client: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates an `__init__(self, *args, **arguments)` that hands its arguments on to `client`."""

    def with_signature(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        init.__signature__ = inspect.signature(client)  # type: ignore[attr-defined]
        return init

    return with_signature
