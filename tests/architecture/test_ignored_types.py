"""What is asked of mypy to look past has its reason beside it; in the product, where a reader would stumble."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT_WORDS = re.compile(r"# type: ignore(\[[^]]*\])?\s*$")
PRODUCT = ("core", "loadtest", "peers", "sdk", "services", "spark", "stack")


def test_every_ignored_type_says_why() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *(f"{part}/*.py" for part in PRODUCT)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    sources = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert len(sources) > 300
    silent = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        if path.is_file()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WITHOUT_WORDS.search(line)
    ]
    assert silent == []
