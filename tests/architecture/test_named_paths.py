"""What docs and sources name is there: pages, links between them, and the files that the reading order goes through."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SOURCE = re.compile(
    r"`((?:core|sdk|services|spark|stack|loadtest|tests|tools|proto)/[\w/.-]+\.(?:py|proto|txt))(?:::\w+)?`"
)
HISTORY = ("CHANGELOG.md", "docs/design/renamed.md", "docs/adr/")
"""They tell of what was; its names are those of its time."""


def listed(*patterns: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [name for name in names if not name.startswith(HISTORY)]


def test_every_page_that_is_named_anywhere_exists() -> None:
    named = {
        (name, page)
        for name in listed("*.py", "*.md", "*.toml", "*.yml", "*.proto", "Makefile", ".importlinter")
        for page in PAGE.findall((ROOT / name).read_text())
    }
    assert len(named) > 100
    assert [f"{name}: {page}" for name, page in sorted(named) if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("name", listed("*.md"))
def test_links_and_named_sources_of_a_page_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    missing = [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
    missing += [source for source in SOURCE.findall(text) if not (ROOT / source).exists()]
    assert missing == []
