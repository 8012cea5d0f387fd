"""How what a client experiences on two clusters is compared."""

from __future__ import annotations

from tests.compat.differential.known import KNOWN
from tests.compat.differential.story import Difference, differences, outdated, unexplained
from tools.kafka_apis import NEWER

KAFKA = {"send": "delivered", "commit": "well", "state": "CompleteCommit"}


def test_equal_facts_do_not_differ() -> None:
    assert differences("s", KAFKA, dict(KAFKA)) == []


def test_another_value_and_a_missing_fact_differ() -> None:
    ours = {"send": "ProducerFencedException", "commit": "well", "more": "x"}
    found = differences("s", KAFKA, ours)
    assert found == [
        Difference("s", "send", "delivered", "ProducerFencedException"),
        Difference("s", "state", "CompleteCommit", "-"),
        Difference("s", "more", "-", "x"),
    ]
    known = {"s: send": "a reason"}
    assert [text.splitlines()[0] for text in unexplained(found, known)] == ["s: state", "s: more"]


def test_a_known_difference_that_is_none_any_more_is_reported() -> None:
    known = {"s: send": "a reason", "s: commit": "a reason", "other: send": "a reason"}
    found = differences("s", KAFKA, {**KAFKA, "commit": "fails"})
    assert unexplained(found, known) == []
    assert outdated("s", found, known) == ["s: send"], "of another story nothing is known here"


def test_the_page_of_apis_names_the_versions_that_are_newer_in_kafka() -> None:
    """The running brokers are compared by `make compat CLIENTS=differs`, which holds the table to them."""
    assert {f"protocol: {name}" for name in NEWER} <= KNOWN.keys()
    assert len([key for key in KNOWN if key.startswith("protocol: ") and key.split(": ")[1][0].isupper()]) == (
        len(NEWER) + 1  # the APIs that ottla does not serve at all
    )
