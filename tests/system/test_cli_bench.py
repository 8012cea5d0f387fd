"""`ottla bench` against a real cluster: its lines are Kafka's, its counts are what the topic holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from cli_fakes import ottla

import ottla as sdk
from ottla.bench import kafka_lines
from ottla.testing import Cluster

WINDOW = re.compile(
    r"\d+ records sent, \d+\.\d records/sec \(\d+\.\d\d MB/sec\), \d+\.\d ms avg latency, \d+\.\d ms max latency\."
)
TOTAL = re.compile(
    r"(\d+) records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.00 ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
CONSUMED = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}, "
    r"\d+\.\d{4}, \d+\.\d{4}, (\d+), \d+\.\d{4}, 0, \d+, \d+\.\d{4}, \d+\.\d{4}"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    with sdk.Admin(cluster.bootstrap) as admin:
        admin.topics.create("measured", partitions=3)
        yield "measured"
        admin.topics.delete("measured")


def held(cluster: Cluster) -> int:
    with sdk.Admin(cluster.bootstrap) as admin:
        return sum(offset or 0 for offset in admin.topics.offsets("measured").values())


def test_what_is_sent_is_there_and_can_be_read(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla(f"bench produce {topic} -n 5000 --size 50 --keys 100 -z zstd --acks 1") == 0
    (line,) = capsys.readouterr().out.splitlines()
    matched = TOTAL.fullmatch(line)
    assert matched is not None, line
    assert int(matched[1]) == held(cluster) == 5000

    assert ottla(f"bench consume {topic} -n 9000 --detailed") == 0
    printed = capsys.readouterr()
    window_header, header, line = printed.out.splitlines()
    assert (window_header, header) == (kafka_lines.CONSUMED_WINDOW_HEADER, kafka_lines.CONSUMED_HEADER)
    matched = CONSUMED.fullmatch(line)
    assert matched is not None, line
    assert int(matched[1]) == 5000
    assert printed.err == "measured returned 5,000 records of the 9,000 requested\n"


def test_a_rate_that_is_kept_prints_a_line_every_five_seconds(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla(f"bench produce {topic} --rate 200/s --for 5.2s") == 0
    printed = capsys.readouterr()
    window, total = printed.out.splitlines()
    assert WINDOW.fullmatch(window), window
    assert TOTAL.fullmatch(total), total
    assert 900 <= held(cluster) <= 1041
    assert printed.err == ""


def test_from_end_to_end_as_lines_and_as_a_result(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(f"bench e2e {topic} -n 1001 --rate 2000/s -X linger.ms=0 -X fetch.max.wait.ms=100") == 0
    first, thousandth, average, percentiles = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"0\t\d+\.\d+", first)
    assert re.fullmatch(r"1000\t\d+\.\d+", thousandth)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", percentiles)

    assert ottla(f"bench e2e {topic} -n 200 --rate 2000/s -o json") == 0
    printed = json.loads(capsys.readouterr().out)
    (found,) = printed["items"]
    assert (printed["kind"], found["partitions"], found["messageSize"]) == ("bench/v1", 3, 100)
    assert len(found["publishRate"]) == len(found["consumeRate"]) == 1
    assert 0 < found["aggregatedPublishLatency50pct"] <= found["aggregatedEndToEndLatencyMax"]


def test_what_was_not_delivered_is_told_and_counts(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.faults.error("Produce", sdk.errors.ErrorCode.INVALID_RECORD).once()
    # A batch for each record: on a busy machine all ten would be one, and fail together.
    assert ottla(f"bench produce {topic} -n 10 --rate 100/s -X linger.ms=0 -X batch.size=1") == 3
    told = capsys.readouterr().err
    assert re.match(r"ottla: \d records? not delivered: .*INVALID_RECORD", told), told


def test_what_can_not_be_is_refused_in_a_sentence(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, told in (
        ("bench produce mesured", 4, "did you mean measured?"),
        (f"bench produce {topic} --size 1GiB", 2, "larger than any broker accepts; use at most 16MiB"),
        (f"bench produce {topic} --rate fast", 2, "--rate 'fast' is not a rate"),
        (f"bench consume {topic} --for soon", 2, "--for='soon' is not a duration"),
        (f"bench e2e {topic} -X lingr.ms=0", 2, "config 'lingr.ms' is unknown; the closest name is linger.ms"),
    ):
        assert ottla(words) == code, words
        assert told in capsys.readouterr().err, words
