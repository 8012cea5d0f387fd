"""`python -m tests.scenarios [NAME …] [--rewrite]`: tell stories as they come out now, or write them down so."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.scenarios.script import STORIES


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", help="stories, without .txt; all by default")
    parser.add_argument("--rewrite", action="store_true", help="write what they come to into their files")
    given = parser.parse_args(arguments)
    known = {path.stem: path for path in STORIES}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"there is no story {', '.join(unknown)}; there are {', '.join(known)}")
    sys.path.append(str(Path(__file__).parents[1] / "support"))  # as pytest's pythonpath has it
    from tests.scenarios.storyteller import tell

    for path in (known[name] for name in given.names or known):
        with tempfile.TemporaryDirectory() as directory:
            text = path.read_text()
            now = asyncio.run(tell(text, Path(directory)))
        if given.rewrite:
            path.write_text(now)
            print(f"{path.name}: {'as it was' if now == text else 'rewritten'}")
        else:
            print(now)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
