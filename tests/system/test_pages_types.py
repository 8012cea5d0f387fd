"""What type checkers say of the programs of the pages, in a user's own project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.walk.pages import ROOT, programs, text
from waiting import LIMIT_S

PAGES = (
    "README.md",
    *(f"docs/use/{page}.md" for page in ("sdk", "serializers", "producer", "tables", "transactions")),
    "docs/operate/mirror.md",
)
"""Not docs/use/errors.md, whose programs are wrong, nor docs/use/spark.md, of which all is Any to type checkers."""
SOURCES = [str(ROOT / part) for part in ("sdk", "cli", "core", "proto", "stack")]


@pytest.fixture
def snippets(tmp_path: Path) -> list[str]:
    """Each snippet of the pages as a program of its own."""
    for page in PAGES:
        for number, snippet in enumerate(programs(text(page))):
            (tmp_path / f"{Path(page).stem}_{number}.py").write_text(snippet)
    paths = sorted(str(path) for path in tmp_path.glob("*.py"))
    assert len(paths) >= 30
    return paths


def test_the_snippets_of_the_pages_pass_a_users_mypy(snippets: list[str], tmp_path: Path) -> None:
    """With the types as the package ships them, and nothing of this project's settings."""
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\ncheck_untyped_defs = True\n[mypy-pyspark.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", *snippets]
    environment = {**os.environ, "MYPYPATH": ":".join(SOURCES)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_snippets_of_the_pages_pass_pyright(snippets: list[str], tmp_path: Path) -> None:
    settings = {"typeCheckingMode": "standard", "extraPaths": SOURCES, "reportMissingImports": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "-p", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
