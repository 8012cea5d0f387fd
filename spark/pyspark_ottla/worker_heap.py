"""Keeps the memory of a Spark Python worker out of Spark's garbage collections.

After each task Spark has its worker look for garbage (`gc.collect`) in everything that the process has imported:
pyarrow, protobuf and PySpark itself. That takes 20 to 80 ms, during which the next task waits. Objects that exist when
the first task of ottla's ends stay there, so they are not looked through again. Objects that later tasks leave are.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def on_task_end() -> None:
    """Note that a task of ottla's ends in this process. The first one freezes the existing objects."""
    if TaskContext.get() is not None:  # a driver that reads a range itself has none
        _freeze()


@cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
