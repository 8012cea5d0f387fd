"""Groups are where Kafka would put them."""

from __future__ import annotations

import pytest

from ottla_core.routing import shard_of


@pytest.mark.feature(65)
@pytest.mark.feature(141)
@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("orders", -1008770331),
        ("polygenelubricants", -(2**31)),
        ("Aa", 2112),
        ("BB", 2112),
        ("ü", 252),
        ("😀", 1772899),
    ],
)
def test_a_key_goes_where_kafka_puts_it(key: str, java_hash: int) -> None:
    assert shard_of(key, 2**31) == java_hash & 0x7FFFFFFF
    assert shard_of(key, 50) == (java_hash & 0x7FFFFFFF) % 50
