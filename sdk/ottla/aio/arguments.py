"""A facade's constructor takes what the client's does, for people, editors and type checkers alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, get_origin

P = ParamSpec("P")


def same_arguments(client: Callable[P, Any]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates an `__init__(self, *args, **arguments)` that passes its arguments on to the class `client`.

    For a generic client pass `Client[K, V]` with the facade's own type variables, so that `value=Order` determines V
    for the facade too.
    """

    def with_signature(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        kind: Any = get_origin(client) or client
        init.__signature__ = inspect.signature(kind.__init__)  # type: ignore[attr-defined]  # functions take attributes
        return init

    return with_signature
