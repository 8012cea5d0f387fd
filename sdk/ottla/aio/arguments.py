"""A facade's constructor takes what the client's does, for people, editors and type checkers alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, get_origin

P = ParamSpec("P")


def same_arguments(client: Callable[P, Any]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates an `__init__(self, *args, **arguments)` that hands its arguments on to the class `client`.

    Of a generic client give `Client[K, V]`, with the facade's own variables: so `value=Order` says what V is here too.
    """

    def with_signature(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        kind: Any = get_origin(client) or client
        init.__signature__ = inspect.signature(kind.__init__)  # type: ignore[attr-defined]  # functions take attributes
        return init

    return with_signature
