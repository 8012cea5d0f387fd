"""One thing that went wrong, and how to make it go wrong again.

A story names functions of the product and says what a broken one does in their place:

    Story(
        "count-that-lies-takes-offsets",
        "A batch of 69 bytes that claimed 2**26 records took offsets for all of them",
        skipped("ottla_broker.storage.validator:check_records"),
    )

`tests/regressions/injection.py` has the other ways to break something. The stories' modules import nothing of the
product at their top: it is broken while it is loaded, so nothing of it may be loaded before.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.regressions.injection import Injection


class Story:
    """What happened, in one line, and what takes its mend out."""

    def __init__(self, name: str, happened: str, *injections: Injection) -> None:
        self.name = name
        """In kebab case; its tests are marked with it: `@pytest.mark.story(name)`."""
        self.happened = happened
        self.injections = injections


def by_name(stories: Iterable[Story]) -> dict[str, Story]:
    """ValueError where two have one name."""
    named: dict[str, Story] = {}
    for story in stories:
        if story.name in named:
            raise ValueError(f"two stories are called {story.name}")
        named[story.name] = story
    return named
