"""How a mutant takes the place of what it breaks."""

from __future__ import annotations

import inspect
from typing import Any


def put_in_place(owner: Any, name: str, new: Any) -> None:
    """Raises AttributeError where the product has no such thing any more, and TypeError where it is called otherwise: a
    mutant that changes nothing, or breaks everything, is none."""
    former = getattr(owner, name)
    if callable(former):
        inspect.signature(new).bind(*inspect.signature(former).parameters)
    setattr(owner, name, new)
