"""What goes to etcd comes back the same, with etcd's own revisions; what another release wrote is refused in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.history import Term
from ottla_core.cluster.image import (
    Broker,
    BrokerIds,
    Controller,
    Coordinator,
    LoginSecret,
    Partition,
    ProducerIds,
    ResourceConfigs,
    Restored,
    Shard,
    Topic,
)
from ottla_core.cluster.store import KeyValue
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_core.security.scram import ScramCredential
from ottla_proto import state_pb2 as pb
from ottla_proto.operation import Operation

CREATED, MODIFIED, LEASE = 41, 43, 99
int32 = st.integers(-1, 2**31 - 1)
ids = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
text = st.text(max_size=20)
settings = st.dictionaries(text, text, max_size=3)
topic_id = TopicId(b"i" * 16)

partitions = st.builds(
    Partition,
    replicas=ids,
    leader=int32,
    leader_epoch=int32,
    isr=ids,
    partition_epoch=int32,
    adding=ids,
    removing=ids,
    mod_revision=st.just(MODIFIED),
)
brokers = st.builds(
    Broker,
    id=st.just(3),
    epoch=st.just(CREATED),
    directory_id=text,
    address=text,
    kafka_address=text,
    kafka_listeners=settings,
    rack=text,
    fenced=st.booleans(),
    incarnation=text,
    lease=st.just(LEASE),
    mod_revision=st.just(MODIFIED),
)
topics = st.builds(Topic, st.just("t"), st.just(topic_id), int32, settings, st.just(MODIFIED))
pairs = st.one_of(
    st.tuples(st.just(keys.partition(PartitionId(topic_id, 0))), partitions),
    st.tuples(st.just(keys.broker(3)), brokers),
    st.tuples(st.just(keys.topic("t")), topics),
    st.tuples(st.just(keys.configs("broker", "")), st.builds(ResourceConfigs, settings, st.just(MODIFIED))),
    st.tuples(
        st.just(keys.coordinator("group", 3)),
        st.builds(Coordinator, st.just("group"), st.just(3), st.just(CREATED), text, text, st.just(MODIFIED)),
    ),
    st.tuples(
        st.just(keys.shard("group", 49)), st.builds(Shard, int32, st.integers(0, 2**63 - 1), int32, st.just(MODIFIED))
    ),
    st.tuples(st.just(keys.CONTROLLER), st.builds(Controller, int32, text, st.just(CREATED))),
    st.tuples(st.just(keys.PRODUCER_IDS), st.builds(ProducerIds, st.integers(0, 2**63 - 1), st.just(MODIFIED))),
    st.tuples(
        st.just(keys.BROKER_IDS),
        st.builds(BrokerIds, int32, st.dictionaries(text, int32, max_size=3), st.just(MODIFIED)),
    ),
    st.tuples(st.just(keys.SEQ), st.integers(0, 2**63 - 1)),
    st.tuples(
        st.just(keys.scram("alice", "SCRAM-SHA-256")),
        st.just(ScramCredential("SCRAM-SHA-256", 4096, b"salt", b"s" * 32, b"k" * 32)),
    ),
    st.tuples(
        st.just(keys.acl(b"a" * 16)),
        st.builds(
            Acl,
            st.sampled_from(ResourceType),
            text,
            st.sampled_from(PatternType),
            text,
            text,
            st.sampled_from(Operation),
            st.sampled_from(Permission),
        ),
    ),
    st.tuples(st.just(keys.LOGIN_SECRET), st.builds(LoginSecret, st.binary(max_size=40))),
    st.tuples(st.just(keys.TERMS), st.lists(st.builds(Term, text, st.integers(0, 2**63 - 1)), max_size=3).map(tuple)),
    st.tuples(st.just(keys.RESTORED), st.builds(Restored, int32, st.integers(0, 2**63 - 1), st.just(MODIFIED))),
)


def entry(value: bytes) -> KeyValue:
    return KeyValue("/ottla/c/the-key", value, CREATED, MODIFIED, LEASE)


@given(pairs)
def test_every_value_comes_back_from_its_bytes(pair: tuple[keys.Key, Any]) -> None:
    key, value = pair
    assert decode(key, entry(encode(key, value))) == value


def test_epochs_are_those_that_etcd_counts() -> None:
    """Whatever the writer believed: an epoch that is taken from anywhere else could come twice."""
    believed = Broker(3, epoch=7, directory_id="d", address="h:1", lease=1, mod_revision=2)
    expected = replace(believed, epoch=CREATED, lease=LEASE, mod_revision=MODIFIED)
    assert decode(keys.broker(3), entry(encode(keys.broker(3), believed))) == expected


def test_equal_values_have_equal_bytes() -> None:
    """A value has one encoding, whatever the order in which its parts were added."""
    ids = {f"directory {n}": n for n in range(50)}
    one = encode(keys.BROKER_IDS, BrokerIds(50, ids))
    other = encode(keys.BROKER_IDS, BrokerIds(50, dict(reversed(ids.items()))))
    assert one == other


@pytest.mark.parametrize("written", [0, 2])
def test_another_format_is_refused_in_words(written: int) -> None:
    value = pb.Topic(format=written, partition_count=3).SerializeToString()
    with pytest.raises(OttlaError) as refused:
        decode(keys.topic("t"), entry(value))
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert f"/ottla/c/the-key in etcd has format {written}" in str(refused.value)
    assert refused.value.hint


def test_damaged_bytes_are_refused_in_words() -> None:
    with pytest.raises(OttlaError) as refused:
        decode(keys.topic("t"), entry(b"\xff\xff\xff"))
    assert "/ottla/c/the-key in etcd is damaged" in str(refused.value)
