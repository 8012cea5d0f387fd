"""`python -m tests.release`: build the version in pyproject.toml from the last commit, and use it as a new user does.

The wheel, the sdist and the images go into clean environments, where the README is followed. Release notes, wheel and
sdist are left in dist/. `--tag` tags the commit at the end. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.golden.released import check_recorded
from tests.hosts.shell import ProofError, run, say
from tests.release.artifacts import ROOT, built, version
from tests.release.images import built_and_used
from tests.release.notes import notes, section
from tests.walk.__main__ import LINES, walk
from tests.walk.environment import Environment

import ottla

DIST: Final = ROOT / "dist"


def release(number: str, directory: Path, *, with_images: bool) -> dict[str, object]:
    """Build and check everything; return the counts. Raises ProofError and AssertionError with what does not hold."""
    changes = section((ROOT / "CHANGELOG.md").read_text(), number)
    check_recorded(number)
    artifacts = built(DIST)
    say(f"{artifacts.wheel.name} has {artifacts.wheel_kb} kB; the sdist builds the same files")
    commands = 0
    for file in artifacts:
        say(f"README and docs/use/sdk.md with {file.name}")
        followed = walk(directory / file.name, package=file)["readme_commands"]
        assert isinstance(followed, int)
        commands += followed
    tags: list[str] = []
    if with_images:
        environment = Environment(directory / "images", package=artifacts.wheel)
        environment.install(LINES[0])
        tags, followed = built_and_used(number, environment)
        commands += followed
    written = DIST / f"notes-{number}.md"
    written.write_text(notes(number, changes, artifacts, tags))
    say(f"release notes: {written.relative_to(ROOT)}")
    return {"wheel_kb": artifacts.wheel_kb, "images": len(tags), "readme_commands": commands}


def check_tag(number: str, *, wanted: bool) -> None:
    """Raise ProofError if the version can't be tagged: the tree has changes, or the tag is another commit's."""
    if changed := run(["git", "-C", str(ROOT), "status", "--porcelain"]):
        told = f"the tree has changes that are not committed, so they are not part of the release:\n{changed}"
        if wanted:
            raise ProofError(told)
        say(told.strip())
    tagged = run(["git", "-C", str(ROOT), "tag", "--list", number, "--format=%(objectname)"]).strip()
    if wanted and tagged:
        raise ProofError(f"{number} is tagged already: raise the version in pyproject.toml")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--without-images", action="store_true", help="leave out the images, which need Docker")
    parser.add_argument("--tag", action="store_true", help="tag the commit with the version")
    given = parser.parse_args(arguments)
    if given.tag and given.without_images:
        parser.error("--tag is for a whole release, so it doesn't go with --without-images")
    began_at = time.monotonic()
    number = version()
    last: dict[str, object] = {"version": number, "ok": False}
    try:
        check_tag(number, wanted=given.tag)
        with tempfile.TemporaryDirectory(prefix="ottla-release-") as directory:
            last |= release(number, Path(directory), with_images=not given.without_images)
        if given.tag:
            run(["git", "-C", str(ROOT), "tag", "-a", number, "-m", f"ottla {number}"])
            say(f"tagged {number}")
        last["ok"] = not given.without_images
    except (ProofError, AssertionError, ottla.OttlaError) as error:
        print(f"not released: {error}", file=sys.stderr)
    print(json.dumps({**last, "seconds": round(time.monotonic() - began_at)}))
    return 0 if last["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
