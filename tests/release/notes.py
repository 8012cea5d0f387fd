"""The release notes: the changelog's section of a version, and what was built and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.hosts.shell import ProofError

MOST_LINES: Final = 60


def section(changelog: str, version: str) -> list[str]:
    """Return the lines below `## version`. Raises ProofError if there are none, or too many for a user to read."""
    _, _, after = f"\n{changelog}".partition(f"\n## {version}\n")
    lines = after.partition("\n## ")[0].strip().splitlines()
    if not lines:
        raise ProofError(f"CHANGELOG.md has no section {version}: write what changed for users")
    if len(lines) > MOST_LINES:
        raise ProofError(f"the changelog's section {version} has {len(lines)} lines; {MOST_LINES} are the most")
    return lines


def notes(version: str, changes: Sequence[str], files: Iterable[Path], images: Sequence[str]) -> str:
    """Return the notes as Markdown."""
    built = [f"| `{file.name}` | {file.stat().st_size / 1000:,.0f} kB | `{_sha256(file)}` |" for file in files]
    lines = [
        f"# ottla {version}",
        "",
        *changes,
        "",
        "### Files",
        "",
        "| file | size | SHA-256 |",
        "|---|---|---|",
        *built,
    ]
    lines += ["", "### Images", "", ", ".join(f"`{image}`" for image in images), ""] if images else [""]
    return "\n".join(lines)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
