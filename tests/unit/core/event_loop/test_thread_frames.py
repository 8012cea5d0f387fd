"""The frames of other threads."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

import pytest

from ottla_core.event_loop.thread_frames import thread_frames


@pytest.mark.story("frames-of-threads-stop-a-process")
@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_collects_garbage_while_the_interpreter_holds_its_threads(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, collects = sys._current_frames, list[bool]()

    def looked_at() -> dict[int, FrameType]:
        collects.append(gc.isenabled())
        return look()

    monkeypatch.setattr(sys, "_current_frames", looked_at)
    if not enabled:
        gc.disable()
    try:
        assert threading.get_ident() in thread_frames()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
    assert collects == [False]
