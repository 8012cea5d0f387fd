"""All stories, in the order in which they are lived through."""

from __future__ import annotations

from typing import Final

from tests.compat.differential.stories import (
    admin,
    codecs,
    consumer_groups,
    fetches,
    groups,
    java,
    librdkafka,
    produces,
    rules,
    transactions,
)
from tests.compat.differential.story import Story

STORIES: Final[tuple[Story, ...]] = (
    *groups.STORIES,  # first: the internal topics are there afterwards
    *consumer_groups.STORIES,
    *transactions.STORIES,
    *produces.STORIES,
    *codecs.STORIES,
    *fetches.STORIES,
    *rules.STORIES,
    *admin.STORIES,
    *librdkafka.STORIES,
    *java.STORIES,
)
