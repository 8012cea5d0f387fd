"""What the fault row of mirrors calls lost, doubled, out of order, foreign, or translated past the true offset."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.faults.history import Name, key_of, value_of
from tests.faults.mirrored.checker import Findings, Pair, Told, Translation, check_pair, check_translations, told
from tests.faults.mirrored.copies import Copied
from tests.faults.mirrored.writer import TABLE

TOPIC = "gzip"
ALL = Told(range(5), ())


def record(offset: int, number: int, topic: str = TOPIC) -> Copied:
    key = key_of(Name(topic, 0, number))
    return Copied(offset, key, value_of(key))


def pair(copy: Sequence[int | Copied], topic: str = TOPIC) -> Pair:
    """A source of five records, with a gap at offset 2; and a copy of these numbers, from its first offset on."""
    source = [record(offset, n, topic) for n, offset in enumerate((0, 1, 3, 4, 5))]
    copied = [record(at, n, topic) if isinstance(n, int) else n for at, n in enumerate(copy)]
    return Pair("least", topic, 0, source, copied)


def found(checked: Pair, *, once: bool = True, known: Told = ALL) -> dict[str, int]:
    findings = Findings()
    check_pair(findings, checked, known, once=once)
    return {kind: count for kind, count in findings.counts.items() if count}


def test_a_copy_that_is_whole_is_as_it_must_be() -> None:
    assert found(pair([0, 1, 2, 3, 4])) == {}


@pytest.mark.parametrize(
    ("copy", "kinds"),
    [
        ([0, 1, 3, 4], {"lost"}),
        ([0, 1, 2, 1, 2, 3, 4], {"doubled"}),
        ([0, 2, 1, 3, 4], {"reordered"}),
        ([0, 1, 2, 3, 4, 9], {"foreign"}),
        ([0, 1, 2, 3, 4, Copied(5, b"k", b"torn")], {"foreign"}),
    ],
)
def test_each_fault_is_found(copy: list[int | Copied], kinds: set[str]) -> None:
    assert set(found(pair(copy))) == kinds


def test_a_record_may_be_there_twice_where_that_is_promised_and_is_counted() -> None:
    findings = Findings()
    check_pair(findings, pair([0, 1, 2, 1, 2, 3, 4]), ALL, once=False)
    assert findings.clean
    assert findings.doubled_least == 2


def test_what_writers_know_counts_too() -> None:
    assert found(pair([0, 1, 2, 3, 4]), known=Told({7}, ())) == {"lost": 1}
    assert found(pair([0, 1, 2, 3, 4]), known=Told((), {2})) == {"foreign": 1}


def test_of_a_table_the_newest_of_each_key_counts() -> None:
    def row(offset: int, key: bytes, number: int) -> Copied:
        return Copied(offset, key, value_of(key_of(Name(TABLE, 0, number))))

    cleaned = [row(1, b"a", 1), row(2, b"b", 2)]
    whole = [row(0, b"a", 0), row(1, b"a", 1), row(2, b"b", 2)]
    assert found(Pair("once", TABLE, 0, cleaned, whole), known=Told((), ())) == {}
    assert found(Pair("once", TABLE, 0, whole, cleaned), known=Told((), ())) == {}
    assert found(Pair("once", TABLE, 0, whole, whole[:2]), known=Told((), ())) == {"lost": 1}
    assert found(Pair("once", TABLE, 0, whole, [whole[0], whole[2]]), known=Told((), ())) == {"lost": 1}


@pytest.mark.parametrize(
    ("offset", "translated", "kinds"),
    [
        (3, 2, {}),
        (2, 2, {}),  # in a gap: the next record
        (3, 1, {}),  # a batch before it
        (3, 0, {"behind": 1}),
        (3, 3, {"past_true": 1}),
        (6, 9, {}),  # at the end, where nothing is to be missed yet
    ],
)
def test_a_translation_leads_to_the_record_or_a_batch_before_it(
    offset: int, translated: int, kinds: dict[str, int]
) -> None:
    findings, checked = Findings(), pair([0, 1, 2, 3, 4])
    check_translations(findings, checked, range(5), [Translation("least", TOPIC, 0, offset, translated)])
    assert {kind: count for kind, count in findings.counts.items() if count} == kinds


@pytest.mark.parametrize(("translated", "kinds"), [(0, {}), (4, {}), (5, {"past_true": 1})])
def test_redis_may_translate_late_and_never_ahead(translated: int, kinds: dict[str, int]) -> None:
    findings, checked = Findings(), pair([0, 1, 2, 3, 4])
    by_redis = Translation("least", TOPIC, 0, 5, translated, by_redis=True)
    check_translations(findings, checked, range(5), [by_redis])
    assert {kind: count for kind, count in findings.counts.items() if count} == kinds
    assert (findings.translations, findings.redis_translations) == (0, 1)


@pytest.mark.parametrize(("translated", "kinds"), [(1, {}), (3, {}), (4, {"past_true": 1})])
def test_of_what_is_there_twice_either_place_will_do(translated: int, kinds: dict[str, int]) -> None:
    findings, checked = Findings(), pair([0, 1, 2, 1, 2, 3, 4])
    check_translations(findings, checked, range(7), [Translation("least", TOPIC, 0, 1, translated)])
    assert {kind: count for kind, count in findings.counts.items() if count} == kinds


@pytest.mark.parametrize(("translated", "kinds"), [(3, {}), (2, {}), (1, {"behind": 1})])
def test_what_was_copied_again_before_a_record_does_not_make_its_translation_late(
    translated: int, kinds: dict[str, int]
) -> None:
    findings, checked = Findings(), pair([0, 1, 2, 0, 1, 2, 3, 4])
    check_translations(findings, checked, range(8), [Translation("least", TOPIC, 0, 4, translated)])
    assert {kind: count for kind, count in findings.counts.items() if count} == kinds


def test_a_writers_history_says_what_it_was_told() -> None:
    history = [
        {"f": "send", "type": type_, "topic": TOPIC, "first": first, "count": 2}
        for type_, first in (("ok", 0), ("info", 2), ("fail", 4))
    ]
    assert told(history) == {TOPIC: Told({0, 1}, {4, 5})}
