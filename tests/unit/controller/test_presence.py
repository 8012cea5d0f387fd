"""A broker that disappears among many is probed, and a probe that fails counts as no response (rule C6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from images import Metadata
from partitions import image_with, partition
from waiting import until

from ottla_controller import presence as presence_module
from ottla_controller.presence import Presence
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Change
from ottla_core.event_loop.tasks import end_task


@pytest.mark.parametrize("failure", [ValueError("no address"), OSError(24, "Too many open files")])
async def test_a_broker_that_can_not_be_asked_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def fails(address: str, *, timeout: float) -> bool:
        raise failure

    monkeypatch.setattr(presence_module, "responds", fails)
    metadata: Any = Metadata()
    presence = Presence(metadata, ManualClock())
    image = image_with(2, partition(0, 1))
    metadata.become(image)
    metadata.become(image.with_changes([Change(("broker", n), None) for n in range(2)], 210))
    assert presence.within_grace() == {0, 1}
    no_journal: Any = None  # nobody is proven dead
    running = asyncio.create_task(presence.run(no_journal))
    await until(lambda: not presence.within_grace())
    await end_task(running)
