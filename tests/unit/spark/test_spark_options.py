"""The options of a source: what is read from them, and how what can't be is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla_core.model import TopicPartition
from pyspark_ottla.access import Access
from pyspark_ottla.machines.admission import AdmissionLimits
from pyspark_ottla.machines.offsets import EARLIEST, LATEST, Bound
from pyspark_ottla.options import READ_OPTIONS, ConsumerStrategy, ReadOptions, read_options, wants_headers

TESTS = Path(__file__).parents[2]
ADDRESS = {"kafka.bootstrap.servers": "here:1, there:2"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def options(*, streaming: bool = False, **given: str) -> ReadOptions:
    lower = {name.replace("__", ".").lower(): value for name, value in given.items()}
    return read_options({**ADDRESS, "subscribe": "a", **lower}, streaming=streaming)


def refused(*, streaming: bool = False, **given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        options(streaming=streaming, **given)
    assert caught.value.hint
    return str(caught.value)


def test_the_defaults_are_those_of_sparks_own_source() -> None:
    for streaming in (False, True):
        found = options(streaming=streaming)
        assert found.access == Access("here:1,there:2")
        assert found.strategy == ConsumerStrategy(topics=("a",))
        assert found.starting == Bound(otherwise=LATEST if streaming else EARLIEST)
        assert found.ending == Bound(otherwise=LATEST)
        assert found.limits == AdmissionLimits(None, None, None, 900.0)
        assert (found.fail_on_data_loss, found.include_headers) == (True, False)
        assert (found.min_partitions, found.max_records_per_partition) == (None, None)
        assert (found.poll_timeout_s, found.fetch_offset_retries, found.fetch_offset_interval_s) == (120.0, 3, 1.0)
        assert (found.client_id, found.commit_group, found.client) == ("spark-ottla-source", "", {})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300", 0.3), ("250ms", 0.25), ("50s", 50.0), ("15m", 900.0), ("15min", 900.0), ("1H", 3600.0), ("1d", 86400.0)],
)
def test_a_delay_is_written_as_spark_writes_it(text: str, seconds: float) -> None:
    found = options(streaming=True, minOffsetsPerTrigger="1", maxTriggerDelay=text)
    assert found.limits.max_delay_s == seconds


def test_what_spark_adds_itself_is_no_option_of_ours() -> None:
    assert options(checkpointLocation="/x", queryName="q") == options()


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing.*OTTLA_BOOTSTRAP"):
        read_options({"subscribe": "a"}, streaming=True)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "env:3")
    assert read_options({"subscribe": "a"}, streaming=True).access.bootstrap == "env:3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka__bootstrap__servers": " , "}, "names no brokers"),
        ({"subscribe": " , "}, "names no topics"),
        ({"subscribe": "a b"}, "a b"),
        ({"startingOffsets": "soon"}, "startingOffsets=soon is not valid"),
        ({"startingOffsets": "[1]"}, "startingOffsets is not valid"),
        ({"startingOffsets": '{"a": {"0": "1"}}'}, "startingOffsets is not valid"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is not valid"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "startingOffsets is not valid"),
        ({"startingOffsets": "{}"}, "startingOffsets names no partitions"),
        ({"startingOffsets": '{"b": {"0": 1}}'}, "names b-0, which the query does not read"),
        ({"startingOffsets": "latest"}, "starts at latest reads nothing"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "starts at latest reads nothing"),
        ({"endingOffsets": "earliest"}, "can't end at earliest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "can't end at earliest"),
        ({"startingTimestamp": "noon"}, "startingTimestamp=noon is not valid"),
        ({"startingTimestamp": "-1"}, "0 or more"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "startingOffsetsByTimestamp is not valid"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "use error or latest"),
        ({"minPartitions": "0"}, "1 or more"),
        ({"maxRecordsPerPartition": "-5"}, "1 or more"),
        ({"includeHeaders": "yes"}, "use true or false"),
        ({"kafkaConsumer__pollTimeoutMs": "1s"}, "whole number"),
        ({"path": "a"}, "option path is unknown.*subscribe"),
        ({"completely": "else"}, "the options are assign, commitOffsets"),
        ({"maxBytesPerTrigger": "1"}, "maxBytesPerTrigger works only in streaming"),
        ({"commitOffsets": "g"}, "commitOffsets works only in streaming"),
    ],
)
def test_what_can_not_be_is_refused_with_a_remedy(given: dict[str, Any], said: str) -> None:
    assert re.search(said, refused(**given), re.DOTALL)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({"assign": "a-0"}, "assign=a-0 is not valid"),
        ({"assign": "{}"}, "assign is not valid"),
        ({"assign": '{"a": []}'}, "assign names no partitions"),
        ({"assign": '{"a": ["0"]}'}, "assign names no partitions"),
        ({"subscribePattern": "a["}, "is not a regular expression"),
        ({"subscribePattern": ""}, "subscribePattern is empty"),
        ({"subscribe": "a", "subscribePattern": "a"}, "subscribe and subscribePattern are set together"),
    ],
)
def test_exactly_one_way_of_saying_what_to_read(strategy: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({**ADDRESS, **{name.lower(): value for name, value in strategy.items()}}, streaming=True)
    assert said in str(caught.value)


def test_what_is_wanted_covers_partitions_that_are_not_there_yet() -> None:
    assert ConsumerStrategy(topics=("a",)).covers(A1)
    assert ConsumerStrategy(pattern="^a").covers(TopicPartition("ab", 9))
    assert ConsumerStrategy(pattern="b").covers(TopicPartition("ab", 9))
    assert not ConsumerStrategy(pattern="^b").covers(TopicPartition("ab", 9))
    assert ConsumerStrategy(partitions=(A0,)).covers(A0)
    assert not ConsumerStrategy(partitions=(A0,)).covers(A1)


def test_headers_are_known_before_the_rest_is_checked() -> None:
    assert wants_headers({"includeheaders": "TRUE", "topic": "for a sink"})
    assert not wants_headers({})


def test_every_option_is_shown_at_work() -> None:
    text = "".join(path.read_text() for path in TESTS.glob("spark/test_*.py"))
    shown = set(re.findall(r"(?:OPTION|spark_option)\(\"(.*?)\"\)", text))
    assert set(READ_OPTIONS) <= shown
