"""Our Spark source beside Spark's own: the same steps on the same topic, and the same outcome of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.spark.session import spark as started_spark
from pyspark.sql import SparkSession
from tests.compat.cells import SPARK
from tests.compat.judges.departures import DEPARTURES, unlisted
from tests.compat.judges.living import live
from tests.compat.judges.spark import SparkSide
from tests.compat.judges.stories.checkpoints import STORIES
from tests.compat.judges.story import Story
from tests.compat.judges.world import World

from ottla_stack.cluster import Cluster


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with started_spark() as session:
        yield session


@SPARK.cell
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_our_source_does_what_sparks_own_does(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, story: Story
) -> None:
    topic = "checkpoints-" + "".join(letter if letter.isalnum() else "-" for letter in story.name)
    theirs = SparkSide(spark, "kafka", cluster.bootstrap, topic, tmp_path)
    ours = SparkSide(spark, "ottla", cluster.bootstrap, topic, tmp_path)
    with World(cluster, topic, partitions=story.partitions, config=story.config, groups=[]) as world:
        facts = live(story, world, theirs, ours)
    wrong = unlisted(facts, DEPARTURES)
    assert not wrong, "\n".join(wrong)
