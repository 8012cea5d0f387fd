"""The history of the metadata shows where a restored store has left the history that it had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla_core.cluster.history import History, Term
from ottla_core.cluster.image import ClusterImage, Restored

A, B, C = Term("a", 1), Term("b", 10), Term("c", 10)


@pytest.mark.parametrize(
    ("one", "other", "parted"),
    [
        (History(), History(), 1),
        (History(seq=7), History(seq=5), 6),
        (History((A,), 5), History((A,), 5), 6),
        (History((A,), 5), History((A,), 7), 6),
        (History((A, B), 20), History((A,), 7), 8),
        (History((A, B), 20), History((A,), 12), 10),
        (History((A, B), 20), History((A, C), 12), 10),
        (History((A, B, Term("d", 15)), 20), History((A, B, Term("e", 13)), 20), 13),
        (History((A,), 5), History(), 1),
        (History((B,), 20), History((A,), 7), 10),
        (History((B,), 20), History((C,), 20), 10),
    ],
    ids=[
        "both are empty",
        "no terms",
        "equal",
        "one has gone on",
        "one has gone on in a new term",
        "the other has gone on in the old term",
        "each has gone on in a new term",
        "they part after two terms",
        "one is empty",
        "the older term was forgotten",
        "no term in common",
    ],
)
def test_two_histories_part_at_the_first_decision_that_only_one_of_them_has(
    one: History, other: History, parted: int
) -> None:
    assert one.parts_from(other) == other.parts_from(one) == parted


@pytest.mark.parametrize(
    ("image", "is_new"),
    [
        (ClusterImage("c"), True),
        (ClusterImage("c", seq=2, terms=(A, Term("b", 2))), True),
        (ClusterImage("c", seq=3, terms=(A, Term("b", 2))), False),
        (ClusterImage("c", seq=1), False),
        (ClusterImage("c", seq=501, terms=(Term("a", 501),)), False),
    ],
    ids=["empty", "two terms have begun", "a decision", "an earlier release", "the first term after an upgrade"],
)
def test_a_cluster_is_new_until_a_controller_decides_something(image: ClusterImage, is_new: bool) -> None:
    assert image.is_new is is_new


@pytest.mark.story("young-backup-is-not-noticed")
def test_a_store_that_has_counted_past_the_decisions_that_it_lost_is_older() -> None:
    known = History((A,), 12)
    image = ClusterImage("c", revision=90, seq=12, terms=(A,))
    assert not image.is_older_than(known)
    assert replace(image, seq=9).is_older_than(known)
    assert replace(image, seq=40, terms=(A, B)).is_older_than(known)


def test_only_a_restoration_that_was_counted_after_the_histories_parted_explains_what_is_lost() -> None:
    known = History((A,), 12)
    image = ClusterImage("c", revision=90, seq=40, terms=(A, B))
    followed = replace(known, restored=1)
    assert replace(image, restored=Restored(1, seq=9)).is_older_than(followed)
    assert not replace(image, restored=Restored(1, seq=11)).is_older_than(followed)


@pytest.mark.parametrize(
    ("known", "terms"),
    [(History((Term("a", 501),), 600), (Term("b", 451),)), (History((Term("a", 501),), 600), (Term("a", 501),))],
    ids=["no term in common, as with a backup of an earlier release", "counted by a controller of an earlier release"],
)
def test_a_larger_count_explains_what_is_lost_wherever_it_was_counted(known: History, terms: tuple[Term, ...]) -> None:
    image = ClusterImage("c", revision=90, seq=560, terms=terms)
    assert image.is_older_than(known)
    assert not replace(image, restored=Restored(1)).is_older_than(known)
    assert replace(image, restored=Restored(1)).is_older_than(replace(known, restored=1))
