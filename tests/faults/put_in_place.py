"""How a mutant takes the place of what it breaks."""

from __future__ import annotations

import inspect
from typing import Any


def put_in_place(owner: Any, name: str, new: Any) -> None:
    """Set `owner.name` to `new`. A mutant that changes nothing, or breaks everything, proves nothing.

    So it raises AttributeError where the product has no such thing, and TypeError where that is called otherwise.
    """
    former = getattr(owner, name)
    if callable(former):
        parameters = inspect.signature(former).parameters
        named = {name: name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
        inspect.signature(new).bind(*(name for name in parameters if name not in named), **named)
    setattr(owner, name, new)
