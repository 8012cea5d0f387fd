"""What a type checker infers for users: `value=Order` says what V is, in both worlds, and a contradiction is found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

USER = """
from dataclasses import dataclass
import ottla, ottla.aio
@dataclass
class Order:
    id: int
def to_text(order: Order) -> bytes: return b""
def from_text(data: bytes) -> Order: return Order(1)
reveal_type(ottla.Producer(topic="t"))  # Producer[Any, Any]
reveal_type(ottla.Producer(topic="t", value=Order))  # Producer[Any, Order]
reveal_type(ottla.Producer(topic="t", key=str, value=to_text))  # Producer[str, Order]
reveal_type(ottla.Producer[str, Order](topic="t", value="json"))  # Producer[str, Order]
reveal_type(ottla.aio.Producer(topic="t", key=int, value=Order))  # Producer[int, Order]
reveal_type(ottla.Consumer("t"))  # Consumer[Any, Any]
reveal_type(ottla.Consumer("t", value=from_text))  # Consumer[Any, Order]
reveal_type(ottla.aio.Consumer[str, Order]("t"))  # Consumer[str, Order]
for record in ottla.Consumer("t", key=str, value=Order):
    reveal_type(record)  # Record[str, Order]
    reveal_type(record.value.id)  # int
ottla.Producer[str, Order](topic="t", value=int)  # error: arg-type
ottla.Producer(topic="t", value=Order).send(5)  # error: arg-type
ottla.aio.Producer(topic="t", key=str).send(5, key=5)  # error: arg-type
"""


def test_types_flow_from_the_arguments(tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_text(USER)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        number, kind, words = re.match(r".*?:(\d+): (\w+): (.*)", line).groups()  # type: ignore[union-attr]
        code = re.search(r"\[([\w-]+)\]$", words)
        revealed = re.sub(r"\b\w+\.(?=\w)", "", words.partition('"')[2].rstrip('"'))
        said[int(number)] = f"error: {code[1]}" if kind == "error" and code else revealed
    expected = {number: line.partition("  # ")[2] for number, line in enumerate(USER.splitlines(), 1) if "  # " in line}
    assert said == expected, done.stdout + done.stderr


PAGES = ("README.md", "docs/sdk.md", "docs/serializers.md", "docs/producer.md")
SOURCES = [str(ROOT / part) for part in ("sdk", "core", "proto", "stack")]


@pytest.fixture
def snippets(tmp_path: Path) -> list[str]:
    """Each snippet of the pages as a program of its own."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            (tmp_path / f"{Path(page).stem}_{number}.py").write_text(snippet)
    paths = sorted(str(path) for path in tmp_path.glob("*.py"))
    assert len(paths) >= 20
    return paths


@pytest.mark.story("snippets-that-type-checkers-refuse")
def test_the_snippets_of_the_pages_pass_a_users_mypy(snippets: list[str], tmp_path: Path) -> None:
    """With the types as the package ships them, and nothing of this project's settings."""
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\ncheck_untyped_defs = True\n[mypy-pyspark.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", *snippets]
    environment = {**os.environ, "MYPYPATH": ":".join(SOURCES)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
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
