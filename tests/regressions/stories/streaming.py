"""Queries of Spark, and what others see of them."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "spark-ends-before-its-last-commit",
        "A query over what is there now ended, and Spark killed its process before its last offsets were committed",
        Edit("spark/pyspark_ottla/stream_reader.py", "self._commits.settle()", "pass"),
    ),
)
