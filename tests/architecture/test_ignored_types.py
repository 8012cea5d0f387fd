"""Where mypy looks past something, the reason stands beside it: a reader would stumble."""

from __future__ import annotations

import re

from sources import ROOT, listed

WITHOUT_WORDS = re.compile(r"# type: ignore(\[[^]]*\])?\s*$")
SOURCES = ("cli", "core", "examples", "loadtest", "peers", "sdk", "services", "spark", "stack", "tests")


def test_every_ignored_type_says_why() -> None:
    sources = [ROOT / name for name in listed(*(f"{part}/*.py" for part in SOURCES))]
    assert len(sources) > 1000
    silent = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WITHOUT_WORDS.search(line)
    ]
    assert silent == []
