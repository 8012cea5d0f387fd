"""The project's pages as a user follows them: their programs, and what these promise to print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def text(page: str) -> str:
    """Return the text of a page such as `README.md` or `docs/use/sdk.md`."""
    return (ROOT / page).read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    """What stands below `## title`."""
    return text(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def programs(markdown: str) -> list[str]:
    """Its Python, a block each."""
    return re.findall(r"```python\n(.*?)```", markdown, re.DOTALL)


def readme_programs() -> list[str]:
    """Return the README's programs for the SDK."""
    return [program for program in programs(text("README.md")) if "import ottla" in program]


def jobs() -> list[tuple[str, str]]:
    """The numbered sections of docs/use/sdk.md: title and program."""
    return re.findall(r"^## (\d+\. .*?)\n\n```python\n(.*?)```", text("docs/use/sdk.md"), re.DOTALL | re.MULTILINE)


def promised(program: str) -> list[str]:
    """The lines that its comments say it prints."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
