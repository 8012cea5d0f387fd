"""docs/design/renamed.md: the names of files and public classes from before the house was sorted, and those of now.

From the history: git's own detection of renamed files, and for a class that has gone the new one most like it.
"""

from __future__ import annotations

import ast
import difflib
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/design/renamed.md"
BEFORE: Final = "1e200d9"
"""The last commit with the old names."""

PRODUCT: Final = ("core", "sdk", "services", "spark", "stack", "loadtest")
_ALIKE: Final = 0.5
_HEAD: Final = f"""# Renamed

For whoever reads older notes: where files and public classes of before `{BEFORE}` are now (`python tools/renamed.py`).
Modules keep their history: `git log --follow` goes back beyond the new name.
"""


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def renamed_files() -> list[tuple[str, str]]:
    lines = git("diff", "--name-status", "-M40%", "--diff-filter=R", BEFORE, "HEAD", "--", *PRODUCT).splitlines()
    return sorted((old, new) for _, old, new in (line.split("\t") for line in lines))


def classes(commit: str) -> dict[str, tuple[str, str]]:
    """Public classes: the file of each, and its source."""
    found = {}
    for path in git("ls-tree", "-r", "--name-only", commit, "--", *PRODUCT).splitlines():
        if path.endswith(".py") and "_pb2" not in path:
            text = git("show", f"{commit}:{path}")
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name] = (path, ast.get_source_segment(text, node) or "")
    return found


def renamed_classes() -> list[tuple[str, str, str]]:
    """Old name, new name, and the file where it is now; the most alike first, each class once."""
    before, now = classes(BEFORE), classes("HEAD")
    gone, new = sorted(before.keys() - now.keys()), sorted(now.keys() - before.keys())
    alike = sorted(
        ((difflib.SequenceMatcher(None, before[a][1], now[b][1]).ratio(), a, b) for a in gone for b in new),
        reverse=True,
    )
    pairs: dict[str, str] = {}
    for ratio, old, name in alike:
        if ratio >= _ALIKE and old not in pairs and name not in pairs.values():
            pairs[old] = name
    return [(old, name, now[name][0]) for old, name in sorted(pairs.items())]


def main() -> None:
    files = [f"| `{old}` | `{new}` |" for old, new in renamed_files()]
    names = [f"| `{old}` | `{new}` | `{path}` |" for old, new, path in renamed_classes()]
    tables = ["\n## Files\n", "| was | is |", "|---|---|", *files]
    tables += ["\n## Classes\n", "| was | is | in |", "|---|---|---|", *names]
    PAGE.write_text("\n".join([_HEAD, *tables, ""]).replace("\n\n\n", "\n\n"))
    print(f"{len(files)} files and {len(names)} classes in {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
