"""One thing that went wrong, and how to make it go wrong again.

A story names functions of the product and says what a broken one does in their place:

    Story(
        "count-that-lies-takes-offsets",
        "A batch of 69 bytes that claimed 2**26 records took offsets for all of them",
        skipped("ottla_broker.storage.validator:check_count"),
    )

`tests/regressions/injection.py` has the other ways to break something. The stories' modules import nothing of the
product at their top: it is broken while it is loaded, so nothing of it may be loaded before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.regressions.injection import Injection


class Edit(NamedTuple):
    """A piece of the source's text that mends something, and what stands in its place without the mend."""

    path: str
    """From the root of the repository."""
    mended: str
    """Stands exactly once in the file."""
    broken: str

    def of(self, text: str) -> str:
        """The text of the file without the mend.

        LookupError where what it replaces is not there exactly once: an edit that changes nothing proves nothing.
        """
        if (count := text.count(self.mended)) != 1:
            raise LookupError(f"{self.path} has {count} times, not once:\n{self.mended}")
        return text.replace(self.mended, self.broken)


class Story:
    """What happened, in one line, and what takes its mend out."""

    def __init__(self, name: str, happened: str, *changes: Injection | Edit) -> None:
        self.name = name
        """In kebab case; its tests are marked with it: `@pytest.mark.story(name)`."""
        self.happened = happened
        self.injections = tuple(each for each in changes if isinstance(each, Injection))
        self.edits = tuple(each for each in changes if isinstance(each, Edit))

    def without_mend(self, root: Path) -> dict[Path, str]:
        """The files that the edits change, with their text after all of them. LookupError as `Edit.of`."""
        texts: dict[Path, str] = {}
        for edit in self.edits:
            path = root / edit.path
            try:
                texts[path] = edit.of(texts[path] if path in texts else path.read_text())
            except (LookupError, FileNotFoundError) as error:
                raise LookupError(f"story {self.name}: {error}") from None
        return texts


def by_name(stories: Iterable[Story]) -> dict[str, Story]:
    """ValueError where two have one name."""
    named: dict[str, Story] = {}
    for story in stories:
        if story.name in named:
            raise ValueError(f"two stories are called {story.name}")
        named[story.name] = story
    return named
