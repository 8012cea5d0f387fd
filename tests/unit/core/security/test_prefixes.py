"""Values by prefix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.security.prefixes import Prefixes

NAMES = st.text("ab#", max_size=5)


def test_the_longest_comes_first() -> None:
    prefixes = Prefixes({"a": 1, "ab": 2, "abc": 3, "b": 4, "abb": 5})
    assert list(prefixes.of("abcd")) == [3, 2, 1]
    assert list(prefixes.of("abd")) == [2, 1]
    assert list(prefixes.of("b")) == [4]
    assert list(prefixes.of("")) == list(prefixes.of("c")) == list(Prefixes[int]({}).of("a")) == []


@given(st.sets(NAMES.filter(bool)), NAMES)
def test_each_prefix_of_a_name_is_found(prefixes: set[str], name: str) -> None:
    found = list(Prefixes({prefix: prefix for prefix in prefixes}).of(name))
    assert found == sorted((prefix for prefix in prefixes if name.startswith(prefix)), key=len, reverse=True)
