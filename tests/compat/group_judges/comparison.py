"""What a judge finds at ottla is what it finds at Apache Kafka, unless the difference is known and has a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tests.compat.group_judges.place import Facts

KNOWN: Final[Mapping[str, str]] = MappingProxyType({})
"""The reason by the judge and the name of its fact, with a colon between them."""


def compare(judge: str, theirs: Facts, own: Facts, record_property: Callable[[str, object], None]) -> None:
    """Tell of each difference, with its reason. One without a reason fails the cell."""
    unexplained = {}
    for name in {**theirs, **own}:
        if theirs.get(name) != own.get(name):
            key = f"{judge}: {name}"
            record_property("differs", f"{key}: {KNOWN.get(key, 'not explained')}")
            if key not in KNOWN:
                unexplained[key] = {"Kafka": theirs.get(name), "ottla": own.get(name)}
    assert not unexplained, "a difference that group_judges/comparison.py has no reason for"
