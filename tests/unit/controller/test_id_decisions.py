"""Producer ids in blocks and broker ids by directory: no number goes out twice."""

from __future__ import annotations

import pytest
from images import after, image_of, topic_id

from ottla_controller.machines.decision import ReliedOn
from ottla_controller.machines.ids import decide_allocate_broker_id, decide_allocate_producer_ids
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Coordinator, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId


@pytest.mark.rule(34)
def test_producer_ids_go_out_in_blocks_that_never_overlap() -> None:
    image = image_of(2)
    seen: list[int] = []
    for broker in (0, 1, 0):
        decision = decide_allocate_producer_ids(image, "broker", broker, 100 + broker)
        seen += range(decision.response.first, decision.response.first + decision.response.count)
        image = after(image, decision)
    assert seen == list(range(3000))


@pytest.mark.rule(34)
def test_a_block_is_written_only_if_no_other_was_meanwhile_and_its_holder_lives() -> None:
    image = after(image_of(2), decide_allocate_producer_ids(image_of(2), "broker", 0, 100))
    (write,) = decide_allocate_producer_ids(image, "broker", 1, 101).writes
    assert write.change.value.next == 2000
    assert set(write.relied_on) == {
        ReliedOn(("producer_ids",), mod_revision=201),
        ReliedOn(("broker", 1), create_revision=101),
    }


def with_coordinator(image: ClusterImage) -> ClusterImage:
    coordinator = Coordinator("txn", 7, 507, "host:1")
    return image.with_changes([Change(keys.coordinator("txn", 7), coordinator)], image.revision + 1)


@pytest.mark.rule(34)
def test_coordinators_get_blocks_of_the_same_ids() -> None:
    image = with_coordinator(after(image_of(2), decide_allocate_producer_ids(image_of(2), "broker", 0, 100)))
    decision = decide_allocate_producer_ids(image, "txn", 7, 507)
    assert (decision.response.first, decision.response.count) == (1000, 1000)
    assert ReliedOn(("coordinator", "txn", 7), create_revision=507) in decision.writes[0].relied_on


@pytest.mark.rule(22)
@pytest.mark.parametrize(
    ("kind", "instance", "epoch", "code"),
    [
        ("broker", 0, 99, ErrorCode.STALE_BROKER_EPOCH),
        ("broker", 0, 150, ErrorCode.STALE_BROKER_EPOCH),
        ("broker", 7, 100, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("mirror", 0, 100, ErrorCode.INVALID_REQUEST),
        ("txn", 7, 506, ErrorCode.STALE_BROKER_EPOCH),
        ("group", 7, 507, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("broker", 7, 507, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_only_a_live_instance_gets_producer_ids(kind: str, instance: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(OttlaError) as refused:
        decide_allocate_producer_ids(with_coordinator(image_of(2)), kind, instance, epoch)
    assert refused.value.code == code


@pytest.mark.feature(118)
def test_a_directory_gets_its_broker_id_again_and_another_directory_another() -> None:
    image = image_of(0)
    first = decide_allocate_broker_id(image, "dir-a")
    image = after(image, first)
    second = decide_allocate_broker_id(image, "dir-b")
    image = after(image, second)
    again = decide_allocate_broker_id(image, "dir-a")
    assert (first.response, second.response, again.response) == (1001, 1002, 1001)
    assert again.writes == ()


@pytest.mark.feature(118)
def test_an_id_that_somebody_has_or_holds_records_under_is_not_handed_out() -> None:
    image = image_of(0).with_changes(
        [
            Change(("broker", 1001), image_of(1).brokers[0]),
            Change(("partition", PartitionId(topic_id(1), 0)), Partition((1002,))),  # its broker is away
        ],
        300,
    )
    decision = decide_allocate_broker_id(image, "dir-a")
    assert decision.response == 1003
    assert ReliedOn(("broker", 1003), mod_revision=0) in decision.writes[0].relied_on


def test_a_broker_id_needs_a_directory() -> None:
    with pytest.raises(OttlaError, match="data directory"):
        decide_allocate_broker_id(image_of(0), "")
