"""A key is spelled in one way and read back as what it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.cluster import keys
from ottla_core.model import SHARD_TOPICS, PartitionId, TopicId
from ottla_core.security.scram import MECHANISMS

topic_ids = st.binary(min_size=16, max_size=16).map(TopicId)
names = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)
numbers = st.integers(0, 2**31 - 1)
any_key = st.one_of(
    st.sampled_from([keys.CONTROLLER, keys.SEQ, keys.PRODUCER_IDS, keys.BROKER_IDS]),
    numbers.map(keys.broker),
    names.map(keys.topic),
    st.builds(PartitionId, topic_ids, numbers).map(keys.partition),
    st.one_of(st.just(""), numbers.map(str)).map(lambda name: keys.configs("broker", name)),
    st.builds(keys.configs, st.sampled_from(["group", "client-metrics"]), st.text(st.characters(codec="utf-8"))),
    st.builds(keys.coordinator, st.sampled_from(sorted(SHARD_TOPICS)), numbers),
    st.builds(keys.acl, st.binary(min_size=16, max_size=16)),
    st.builds(keys.scram, st.text(st.characters(codec="utf-8")), st.sampled_from(MECHANISMS)),
    st.builds(keys.shard, st.sampled_from(sorted(SHARD_TOPICS)), numbers),
)


@given(cluster=names, key=any_key)
def test_every_key_comes_back_from_its_text(cluster: str, key: keys.Key) -> None:
    text = keys.key_text(cluster, key)
    assert text.startswith(keys.prefix(cluster))
    assert keys.parse_key(cluster, text) == key


@given(text=st.text(max_size=60))
def test_no_text_stands_for_a_key_that_is_spelled_differently(text: str) -> None:
    key = keys.parse_key("c", f"/ottla/c/{text}")
    assert key is None or keys.key_text("c", key) == f"/ottla/c/{text}"


def test_keys_lie_where_the_contract_says() -> None:
    partition = PartitionId(TopicId(bytes(range(16))), 7)
    assert keys.key_text("c1", keys.broker(3)) == "/ottla/c1/brokers/3"
    assert keys.key_text("c1", keys.topic("t")) == "/ottla/c1/topics/t"
    assert keys.key_text("c1", keys.coordinator("group", 1)) == "/ottla/c1/coordinators/group/1"
    assert keys.key_text("c1", keys.shard("txn", 49)) == "/ottla/c1/shards/txn/49"
    assert keys.key_text("c1", keys.partition(partition)) == (
        "/ottla/c1/partitions/000102030405060708090a0b0c0d0e0f/00007"
    )


@pytest.mark.parametrize(
    "text",
    [
        "/ottla/c/brokers/007",
        "/ottla/c/brokers/one",
        "/ottla/c/partitions/zz/00001",
        "/ottla/c/partitions/000102030405060708090A0B0C0D0E0F/00007",
        "/ottla/c/acls/later/release",
        "/ottla/other/topics/t",
        "/ottla/c/",
        "",
    ],
)
def test_what_nobody_of_ours_has_written_is_no_key(text: str) -> None:
    assert keys.parse_key("c", text) is None
