"""The Java client's producers and consumers: the classes of what they raise, and whether they go on."""

from __future__ import annotations

from functools import partial
from typing import Final

from peers.java.driver import java_client
from tests.compat.differential.story import Facts, Side, Story


def _live(story: str, side: Side) -> Facts:
    return java_client().experience(side.bootstrap, side.topic(2), story)


STORIES: Final = tuple(
    Story(f"Java, {story}", partial(_live, story))
    for story in ("fenced", "timed out", "aborted", "offsets", "consumer")
)
