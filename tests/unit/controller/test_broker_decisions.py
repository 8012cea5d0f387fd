"""What the controller decides about registrations: who goes, and whose process is dead."""

from __future__ import annotations

from dataclasses import replace

import pytest
from images import after
from partitions import image_with

from ottla_controller.machines.brokers import decide_controlled_shutdown, decide_remove_dead
from ottla_controller.machines.decision import ReliedOn
from ottla_core.cluster.image import Change
from ottla_core.errors import ErrorCode, OttlaError


@pytest.mark.feature(117)
def test_a_broker_that_goes_is_marked_once() -> None:
    image = image_with(2)
    decision = decide_controlled_shutdown(image, 1, 101)
    (write,) = decision.writes
    assert write.change == Change(("broker", 1), replace(image.brokers[1], shutting_down=True))
    assert ReliedOn(("broker", 1), create_revision=101) in write.relied_on
    assert ReliedOn(("broker", 1), mod_revision=0) in write.relied_on
    assert decide_controlled_shutdown(after(image, decision), 1, 101).writes == ()


@pytest.mark.rule(22)
@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(1, 100, ErrorCode.STALE_BROKER_EPOCH), (7, 107, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_another_life_can_not_make_a_broker_go(broker_id: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(OttlaError) as refused:
        decide_controlled_shutdown(image_with(2), broker_id, epoch)
    assert refused.value.code == code


@pytest.mark.rule(22)
def test_the_registration_of_a_dead_process_is_removed_and_a_newer_life_is_never_hit() -> None:
    image = image_with(2)
    decision = decide_remove_dead(image, 1, 101)
    assert decision.response
    (write,) = decision.writes
    assert write.change == Change(("broker", 1), None)
    assert write.relied_on == (ReliedOn(("broker", 1), create_revision=101),)
    reborn = image.with_changes([Change(("broker", 1), replace(image.brokers[1], epoch=300))], 300)
    assert decide_remove_dead(reborn, 1, 101).writes == ()
    assert decide_remove_dead(after(image, decision), 1, 101).writes == ()
