"""What a Spark Python worker keeps in memory, and why Spark's garbage collections need not go through it.

After each task Spark has its worker look for garbage (`gc.collect`), through everything that the process has imported:
pyarrow, gRPC, PySpark itself, 20 to 80 ms during which the next task waits. What is there when the first of our tasks
ends stays there, so it is not looked through again; what later tasks leave is.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def on_task_end() -> None:
    """A task of ours ends in this process: the first one freezes what there is."""
    if TaskContext.get() is not None:  # a worker's, not a driver's that reads a range itself
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
