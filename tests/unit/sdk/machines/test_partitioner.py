"""Keys go where Kafka's clients send them; records without a key fill batch after batch."""

import random

import pytest
from kafka.partitioner.default import murmur2 as independent_murmur2

from ottla.machines import partitioner
from ottla.machines.partitioner import KeyedPartitioner, SpreadingPartitioner, StickyPartitioner, in_turn, murmur2


@pytest.mark.feature(23)
@pytest.mark.parametrize(
    ("key", "signed"),
    [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_own_values(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % (1 << 32)


@pytest.mark.feature(23)
def test_murmur2_agrees_with_an_independent_one_for_every_length() -> None:
    chance = random.Random(7)
    for size in [*range(70), 255, 256, 259, 260, 261, 1000]:
        key = chance.randbytes(size)
        assert murmur2(key) == independent_murmur2(key) & 0xFFFFFFFF


@pytest.mark.feature(23)
def test_the_same_key_goes_to_the_same_partition_however_many_keys_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioner, "CACHED_KEYS", 100)
    keyed = KeyedPartitioner(6)
    keys = [str(n).encode() for n in range(350)]
    for _ in range(3):
        assert [keyed.partition(key) for key in keys] == [(murmur2(key) & 0x7FFFFFFF) % 6 for key in keys]
        assert len(keyed._younger) + len(keyed._older) <= 200
    assert {keyed.partition(key) for key in keys} == set(range(6))


@pytest.mark.feature(24)
def test_without_a_key_batches_take_turns_over_partitions_with_a_leader() -> None:
    sticky = StickyPartitioner(0)
    sticky.on_metadata((0, 2), 3)
    assert sticky.current == sticky.current == 0
    assert [sticky.on_batch_full() for _ in range(4)] == [2, 0, 2, 0]
    sticky.on_metadata((), 3)
    assert {sticky.on_batch_full() for _ in range(3)} == {0, 1, 2}


@pytest.mark.feature(24)
def test_spreading_takes_every_partition_that_has_a_leader() -> None:
    spreading = SpreadingPartitioner(in_turn(4))
    spreading.on_metadata((0, 2, 5), 6)
    assert [spreading.partition() for _ in range(4)] == [2, 5, 0, 2]
    spreading.on_metadata((), 2)
    assert {spreading.partition() for _ in range(2)} == {0, 1}
    lots = iter([1, 0, 0])
    by_lot = SpreadingPartitioner(lambda count: next(lots))
    by_lot.on_metadata((3, 4), 6)
    assert [by_lot.partition() for _ in range(3)] == [4, 3, 3]
