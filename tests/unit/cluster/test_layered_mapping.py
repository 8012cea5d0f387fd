"""A layered mapping is what a dict would be, and every copy stays what it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from ottla_core.cluster import layered_mapping
from ottla_core.cluster.layered_mapping import FEW, LayeredMapping, copy_of


def test_copies_are_what_copies_of_a_dict_would_be() -> None:
    random, keys = Random(5), range(FEW - 20, FEW + 60)
    versions: list[tuple[Mapping[int, int], dict[int, int]]] = [({}, {})]
    for step in range(600):
        mapping, expected = copy_of(versions[-1][0]), dict(versions[-1][1])
        grows = step % 200 < 120
        changes = random.choice([1, 2, 3, 60]) if len(expected) > FEW // 2 or not grows else FEW
        for change in range(changes):
            key = random.choice(keys) if changes < FEW else change
            if random.random() < (0.8 if grows else 0.05) or changes == FEW:
                mapping[key] = expected[key] = step
            else:
                assert mapping.pop(key, None) == expected.pop(key, None)
            if random.random() < 0.01:
                assert len(mapping) == len(expected)
        versions.append((mapping, expected))
    assert {type(mapping) for mapping, _ in versions} == {dict, LayeredMapping}, "it has grown across FEW"
    for copy, expected in versions:
        assert all(copy.get(key) == expected.get(key) for key in range(FEW + 70))
        assert all((key in copy) == (key in expected) for key in range(FEW + 70))
        assert (len(copy), copy) == (len(expected), expected)
        assert sorted(copy.items()) == sorted(expected.items())
        assert sorted(copy) == sorted(expected)
        assert sorted(copy.values()) == sorted(expected.values())


def test_what_is_missing_or_deleted_is_not_found() -> None:
    mapping = copy_of({n: n for n in range(FEW)})
    del mapping[3]
    assert (mapping.get(3, "none"), mapping.get(FEW, "none"), 3 in mapping) == ("none", "none", False)
    for key in (3, FEW):
        with pytest.raises(KeyError):
            mapping[key]
        with pytest.raises(KeyError):
            del mapping[key]


def test_what_has_shrunk_is_a_dict_again() -> None:
    mapping = copy_of({n: n for n in range(FEW)})
    for n in range(100):
        del mapping[n]
    assert (type(mapping), type(copy_of(mapping))) == (LayeredMapping, dict)


def test_the_order_is_a_dicts() -> None:
    """Not that of hashes, which of text and bytes differ from process to process."""
    names = [f"t{n}" for n in range(FEW)]
    mapping = copy_of(dict.fromkeys(names, 0))
    mapping["new"] = mapping["t5"] = 1
    assert list(mapping) == [*names, "new"]
    assert list(copy_of(mapping)) == [*names, "new"]
    for anew in ("t5", "new", "t7"):
        del mapping[anew]
        mapping = copy_of(mapping)
        mapping[anew] = 2
    assert list(mapping) == [*(name for name in names if name not in ("t5", "t7")), "t5", "new", "t7"]


def test_most_copies_share_all_but_the_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    merged = []
    monkeypatch.setattr(layered_mapping, "dict", lambda m: merged.append(len(m)) or dict(m), raising=False)
    mapping: Mapping[int, int] = {n: n for n in range(10_000)}
    for n in range(1_000):
        changed = copy_of(mapping)
        changed[n] = -1
        mapping = changed
    assert sum(merged) < 1_000 * 200, "of copies of all it would be ten million"
    assert sum(size == 10_000 for size in merged) in range(5, 12)


def test_a_thread_that_reads_while_another_iterates_finds_everything() -> None:
    """Whoever iterates first puts the layers together."""
    found: list[int | None] = []

    class Read(LayeredMapping[int, int]):
        """Is read whenever one of its layers is replaced."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if hasattr(self, "_above"):
                found.append(self.get(1))

    mapping = Read({1: 0}, {1: 1})
    assert (list(mapping), found) == ([1], [1, 1, 1])


@pytest.mark.parametrize("read", [copy_of, dict, len, lambda mapping: mapping.get(1)])
@pytest.mark.parametrize("moment", range(8))
def test_a_thread_that_iterates_meanwhile_loses_no_change(read: Callable[[Any], Any], moment: int) -> None:
    """Whenever that is: before or after any look into one of the layers."""

    class Interrupted(LayeredMapping[int, int]):
        looks = 0

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name in ("_above", "_below"):
                Interrupted.looks += 1
                if Interrupted.looks == moment:
                    list(self)
            return value

    mapping = Interrupted({1: 0, 2: 0, 3: 0}, {1: 1, 3: layered_mapping._DELETED})
    assert read(mapping) == read({1: 1, 2: 0})
    assert mapping == {1: 1, 2: 0}
