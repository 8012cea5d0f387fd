"""Which folders of a tree hold its packages."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path


def python_path(tree: Path) -> str:
    """For PYTHONPATH: with it, a tree runs from where it stands, and not what is installed."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    return os.pathsep.join(str(tree / name) for name in project["tool"]["hatch"]["build"]["dev-mode-dirs"])
