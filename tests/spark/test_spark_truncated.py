"""A query whose topic has lost its end in an unclean election, and has grown beyond what the query had read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from spark_source import Stream
from unclean import UncleanTopic

from ottla.errors import OffsetOutOfRangeError
from ottla.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


@pytest.mark.story("query-leaves-out-what-a-truncated-log-has-written-since")
@pytest.mark.spark_option("failOnDataLoss")
def test_a_query_says_that_its_log_was_truncated_even_if_it_has_grown_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = UncleanTopic(cluster, "t")
    topic.produce(range(10))
    topic.fall_behind()
    topic.produce(range(10, 20))
    options = {"subscribe": "t", "startingOffsets": "earliest"}
    running, lenient = (Stream(cluster.bootstrap, {**options, "failOnDataLoss": loss}) for loss in ("true", "false"))
    assert len(running.batch() or ()) == 20
    assert len(lenient.batch() or ()) == 20
    planned_before = running.checkpoint
    topic.produce(range(20, 25))
    planned = running.plan()
    assert planned is not None
    topic.lose_what_followed()
    topic.produce(range(100, 130))  # offsets 10 to 39
    lost = r"t-0 was truncated to 10, and the query had read up to 20"
    with pytest.raises(OffsetOutOfRangeError, match=lost):
        running.plan()
    later = Stream(cluster.bootstrap, options, planned_before)
    with pytest.raises(OffsetOutOfRangeError, match=lost):
        later.plan()
    with pytest.raises(OffsetOutOfRangeError, match=r"truncated to 10, and the query had read up to 25"):
        later.run(planned)  # as Spark does after a restart
    for _ in range(2):
        lenient.batch()
    assert json.loads(lenient.checkpoint)["t"]["0"] == 40
    assert sum("was truncated to 10" in record.message for record in caplog.records) == 1
    topic.produce(range(130, 140))
    assert len(lenient.batch() or ()) == 10
    for stream in (running, lenient, later):
        stream.stop()
