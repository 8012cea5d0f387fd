"""The documented loop from topic to topic copies each record once, wherever its block is interrupted or cancelled.

`make faults ROWS=F29` interrupts at every place, with every fate and every way of going on.
"""

from __future__ import annotations

import pytest
from exactly_once_loops import FATES, RECOVERIES, cancelled_loop, interrupted_loop

_STRIDE = 17
"""Every so many places. The sweeps begin at different ones."""

_CASES = [
    pytest.param(fate, RECOVERIES[n % len(RECOVERIES)], 1 + 7 * n % _STRIDE, id=f"{fate}; {RECOVERIES[n % 3]}")
    for n, fate in enumerate(FATES)
]


@pytest.mark.story("transaction-that-nobody-saw-end-skips-its-batch")
@pytest.mark.parametrize(("fate", "recovery", "first"), _CASES)
def test_each_record_is_copied_once_wherever_a_signal_handler_raises(fate: str, recovery: str, first: int) -> None:
    sweep = interrupted_loop(FATES[fate], recovery=recovery, stride=_STRIDE, first=first)
    assert len(sweep.hits) > 8
    assert "Interruption" in sweep.errors
    assert len(sweep.ahead) <= 1, (
        "only before the first line of `__exit__` can't the consumer know that the block ended"
    )


@pytest.mark.story(
    "transaction-that-nobody-saw-end-skips-its-batch", "cancelled-entry-leaves-the-transaction-open-for-ever"
)
@pytest.mark.parametrize("late", [False, True], ids=["before the wait", "after the wait"])
@pytest.mark.parametrize("fate", FATES)
async def test_each_record_is_copied_once_wherever_a_task_is_cancelled(fate: str, late: bool) -> None:
    sweep = await cancelled_loop(FATES[fate], late=late, recovery="polls")
    assert len(sweep.hits) > 2
    assert "CancelledError" in sweep.errors
    assert sweep.ahead == set()
