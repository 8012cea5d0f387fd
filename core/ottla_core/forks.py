"""Calls that run in a child process that is forked. Windows has no forks."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_children(call: Callable[[], object]) -> None:
    """Have `call` called in every child that is forked from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)
