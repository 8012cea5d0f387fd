"""The rules of sequences, epochs, verification and fetches, of which the table stands beside their test."""

from __future__ import annotations

from typing import Final

from raw_kafka import Raw
from tests.compat.differential.story import Facts, Side, Story
from tests.system.test_raw_rules import TABLE, Rule

_NAME: Final = "raw rules"


def _rules(side: Side) -> Facts:
    return {rule.name: _outcome(side, rule) for rule in TABLE}


def _outcome(side: Side, rule: Rule) -> str:
    """What the last step comes to."""
    raw = Raw(side.bootstrap)
    try:
        return repr([act(raw) for act, _ in rule.steps][-1])
    finally:
        raw.close()


STORIES: Final = (Story(_NAME, _rules),)
KNOWN: Final = {f"{_NAME}: {rule.name}": rule.differs for rule in TABLE if rule.differs}
"""The table has the reasons beside its rows."""
