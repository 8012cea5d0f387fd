"""What a copy of the offset maps is to be told: no more than what has changed, and all of that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.mirror.redis_offsets import member_of, translate_by
from ottla_core.model import TopicPartition
from ottla_mirror.machines.offset_map import OffsetMaps, Stretch, SyncedStretch

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


class Copied:
    """What one who takes all changes has, by partition."""

    def __init__(self, maps: OffsetMaps) -> None:
        self.maps, self.stretches = maps, dict[TopicPartition, list[Stretch]]()

    def take(self) -> int:
        """How many stretches came."""
        count = 0
        while (changed := self.maps.take_changed()) is not None:
            kept = [s for s in self.stretches.get(changed.source, []) if s.source < changed.first]
            self.stretches[changed.source] = kept + changed.stretches
            count += len(changed.stretches)
        return count

    def translate(self, source: TopicPartition, offset: int) -> int | None:
        """As one does who looks it up in a sorted set."""
        before = [stretch for stretch in self.stretches.get(source, []) if stretch.source <= offset]
        return translate_by(member_of(*before[-1]), offset) if before else None


def synced(source: int, target: int, length: int, *, topic_id: bytes = b"id", number: int = 0) -> SyncedStretch:
    return SyncedStretch(PARTITIONS[number], topic_id, Stretch(source, target, length))


def test_a_stretch_that_grows_and_one_that_is_new_are_all_that_is_taken() -> None:
    copied = Copied(OffsetMaps())
    for number in range(1000):
        copied.maps.add(synced(number * 10, number * 9, 9))
    assert copied.take() == 1000
    copied.maps.add(synced(9999, 8999, 5))
    assert (copied.take(), copied.take()) == (1, 0)
    copied.maps.add(synced(10_004, 9004, 5))
    copied.maps.add(synced(20_000, 9100, 5))
    assert copied.take() == 2


def test_of_a_topic_that_was_made_anew_nothing_of_the_former_one_is_left() -> None:
    copied = Copied(OffsetMaps())
    copied.maps.add(synced(900, 900, 100, topic_id=b"former"))
    copied.take()
    copied.maps.add(synced(0, 0, 20, topic_id=b"new"))
    copied.take()
    assert copied.stretches[PARTITIONS[0]] == [Stretch(0, 0, 20)]


def test_all_of_it_can_be_taken_again() -> None:
    copied = Copied(OffsetMaps())
    for number in range(3):
        copied.maps.add(synced(0, number, 5, number=number))
    copied.take()
    copied.stretches.clear()
    copied.maps.change_all()
    assert copied.take() == 3
    assert sorted(copied.stretches) == PARTITIONS


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(-9, 3),
            st.integers(1, 9),
            st.sampled_from([b"a"] * 9 + [b"b"]),
            st.booleans(),
        ),
        min_size=20,
        max_size=80,
    ),
    st.sampled_from([4, 6, 12, 1000]),
)
def test_whoever_takes_the_changes_translates_like_the_maps(
    history: list[tuple[int, int, int, bytes, bool]], most: int
) -> None:
    copied, target = Copied(OffsetMaps(most)), 0
    for number, ahead, length, topic_id, take_then in history:
        known = copied.maps.get(PARTITIONS[number])
        source = max(0, ahead + (0 if known is None else known.end))
        copied.maps.add(synced(source, target, length, topic_id=topic_id, number=number))
        target += length + 1
        if take_then:
            copied.take()
    copied.take()
    for partition in PARTITIONS:
        known = copied.maps.get(partition)
        for offset in range(0 if known is None else known.end + 5):
            assert copied.translate(partition, offset) == (None if known is None else known.translate(offset))
