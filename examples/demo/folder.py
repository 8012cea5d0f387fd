"""Runs a demo in a folder that is removed afterwards, whatever happens."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from ottla_core.errors import OttlaError

_T = TypeVar("_T")


def in_folder(work: Callable[[Path], _T], console: Console) -> _T:
    """Return the result of `work`. Exits with 1 if it fails, and says why, and with 130 on Ctrl-C."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        return work(directory)
    except OttlaError as error:
        console.print(f"demo: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        console.print("stopped; everything is cleaned up")
        raise SystemExit(130) from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)
