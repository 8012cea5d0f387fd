"""A service does not import aiokafka while its event loop runs, because that would hold up the loop for 0.2 s."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla_core.records import twins

COMPILED = twins.twin().name == "compiled"


def printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.skipif(not COMPILED, reason="there is no compiled twin here")
@pytest.mark.parametrize("service", ["group_coordinator", "txn_coordinator"])
def test_coordinators_load_the_compiled_twin_with_their_modules(service: str) -> None:
    assert printed(f"import sys, ottla_{service}.__main__; print('aiokafka' in sys.modules)") == ["True"]


def test_brokers_write_and_read_markers_and_fences_without_it() -> None:
    program = """
import sys, ottla_broker.__main__
from ottla_core.records.control import EndTransactionMarker, marker_of, seal_marker
from ottla_core.records.fence import ShardFence, fence_of, seal_fence
marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
fence = ShardFence(5, 7)
print(marker_of(seal_marker(1, 2, marker, 1000)) == marker, fence_of(seal_fence(fence, 1000)) == fence)
print('aiokafka' in sys.modules)
"""
    assert printed(program) == ["True", "True", "False"]
