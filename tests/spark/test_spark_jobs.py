"""The jobs on real input: the first flights of 2013 and the weather they met, against the same figures by pandas."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.demo.flights import Flight, read_flights
from examples.demo.weather import Observation, read_weather
from pyspark.sql import SparkSession
from waiting import LIMIT_S, SPARK_LIMIT_S, wait_until

import audit
import delays
import lake
import ottla
import replay
import snapshot
from ottla.testing import Cluster

JOBS = Path(__file__).parents[2] / "spark" / "jobs"
FLIGHTS = 2_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights(FLIGHTS)


@pytest.fixture(scope="module")
def weather(flights: list[Flight]) -> list[Observation]:
    return read_weather(flights[-1].timestamp_ms)


@pytest.fixture(scope="module")
def topics(cluster: Cluster, flights: list[Flight], weather: list[Observation]) -> Cluster:
    fill(cluster, flights, weather)
    return cluster


@pytest.fixture
def own_topics(flights: list[Flight], weather: list[Observation]) -> Iterator[Cluster]:
    """In a cluster of the test's own, for one that sends to them: it may be run again."""
    with Cluster(group_coordinators=1, txn_coordinators=1) as cluster:
        fill(cluster, flights, weather)
        yield cluster


def fill(cluster: Cluster, flights: list[Flight], weather: list[Observation]) -> None:
    """With `flights` (three partitions, by carrier), `weather` and an empty `clock`."""
    with ottla.Admin(cluster.bootstrap) as admin:
        for name, partitions in {"flights": 3, "weather": 3, "clock": 1, "delays": 2, "replayed": 3}.items():
            admin.topics.create(name, partitions=partitions, config={"retention.ms": "-1"})
    with ottla.Producer(cluster.bootstrap, key="str", value="bytes") as producer:
        for flight in flights:
            header = [("row", b"%d" % flight.number)]
            producer.send(
                flight.value, topic="flights", key=flight.carrier, timestamp=flight.timestamp_ms, headers=header
            )
        for seen in weather:
            producer.send(seen.value, topic="weather", key=seen.origin, timestamp=seen.timestamp_ms)


@pytest.fixture
def run(spark: SparkSession, topics: Cluster) -> Callable[..., dict[str, Any]]:
    """`run(lake, "--topic", "flights", …)` runs a job in the tests' session."""

    return partial(run_job, spark, topics)


def run_job(spark: SparkSession, cluster: Cluster, job: Any, *arguments: object) -> dict[str, Any]:
    options: argparse.Namespace = job.parser().parse_args(["--bootstrap", cluster.bootstrap, *map(str, arguments)])
    return dict(job.run(spark, options))


def command(cluster: Cluster, job: str, *arguments: object) -> subprocess.Popen[str]:
    """The job as its users start it, the leader of a process group of its own."""
    line = [sys.executable, str(JOBS / f"{job}.py"), "--bootstrap", cluster.bootstrap, *map(str, arguments)]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ}
    )


def expected(flights: list[Flight], weather: list[Observation]) -> pd.DataFrame:
    """What the job `delays` has to find."""
    left = pd.DataFrame([json.loads(flight.value) for flight in flights])
    seen = pd.DataFrame([json.loads(each.value) for each in weather])[
        ["origin", "time_hour", "wind_speed", "visib", "precip"]
    ]
    by_hour = left.groupby(["origin", "time_hour"], as_index=False).agg(
        flights=("flight", "count"),
        departed=("dep_delay", "count"),
        delay_minutes=("dep_delay", "sum"),
        mean_delay=("dep_delay", "mean"),
        max_delay=("dep_delay", "max"),
    )
    by_hour["cancelled"] = by_hour.flights - by_hour.departed
    table = by_hour.merge(seen, on=["origin", "time_hour"], how="left").rename(columns={"time_hour": "hour"})
    return table.assign(hour=pd.to_datetime(table.hour, utc=True)).set_index(["origin", "hour"]).sort_index()


def assert_equal(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    found = found.assign(hour=pd.to_datetime(found.hour, utc=True)).set_index(["origin", "hour"]).sort_index()
    pd.testing.assert_frame_equal(
        found[sorted(wanted.columns)].astype(float),
        wanted[sorted(wanted.columns)].astype(float),
        check_exact=True,
        check_index_type=False,
    )


@pytest.mark.story("spark-windows-twice-in-their-topic")
def test_delays_joins_two_streams_and_closes_windows_as_the_clock_moves(
    spark: SparkSession,
    own_topics: Cluster,
    flights: list[Flight],
    weather: list[Observation],
    tmp_path: Path,
) -> None:
    out, run = tmp_path / "delays", partial(run_job, spark, own_topics)
    arguments = ["--clock", "clock", "--to-parquet", out, "--available-now", "--exactly-once"]
    wanted = expected(flights, weather)
    first = run(delays, *arguments)
    assert 0 < first["windows"] < len(wanted), "the last windows are open: a flight may still come"
    end = flights[-1].timestamp_ms + 3 * HOUR_MS
    with ottla.Producer(own_topics.bootstrap, topic="clock") as producer:
        producer.send(None, timestamp=end)
    late = flights[0]
    with ottla.Producer(own_topics.bootstrap, topic="flights", key="str", value="bytes") as producer:
        producer.send(late.value, key=late.carrier, timestamp=late.timestamp_ms)
    second = run(delays, *arguments)
    assert first["windows"] + second["windows"] == len(wanted)
    forget_last_batch(out)
    assert run(delays, *arguments)["windows"] > 0, "a micro-batch with windows is done again"
    table = pd.read_parquet(out)
    assert_equal(table, wanted)
    records = list(ottla.read("delays", bootstrap=own_topics.bootstrap, value="json"))
    assert_equal(pd.DataFrame([record.value for record in records]), wanted)
    assert len({record.key for record in records}) == len(records) == len(wanted)


def forget_last_batch(out: Path) -> None:
    """As if the driver had died when the last windows were written, and before Spark's own log had their batch."""
    last = max(int(written.name.removeprefix("batch=")) for written in out.glob("batch=*"))
    for log, first in (("offsets", last + 1), ("commits", last)):
        for entry in (out / "_checkpoint" / log).iterdir():
            if int(entry.name.removeprefix(".").removesuffix(".crc")) >= first:
                entry.unlink()


def rows_of(spark: SparkSession, path: Path) -> list[tuple[int, int]]:
    return sorted(
        (row.partition, row.offset) for row in spark.read.parquet(str(path)).select("partition", "offset").collect()
    )


def end_by_force(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # Spark's JVM and workers, too
    process.communicate(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def half_a_lake(topics: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the job `lake`, killed half-way, has left."""
    path = tmp_path_factory.mktemp("lake") / "flights"
    arguments = ["--topic", "flights", "--to", path, "--max-records", 100, "--every", "0 seconds"]
    process = command(topics, "lake", *arguments)
    try:
        committed = path / "_checkpoint" / "commits" / "2"
        wait_until(lambda: committed.exists() or process.poll() is not None, limit_s=SPARK_LIMIT_S)
        assert process.poll() is None, process.communicate()
    finally:
        end_by_force(process)
    return path


@pytest.fixture(scope="module")
def whole_lake(spark: SparkSession, topics: Cluster, half_a_lake: Path) -> Path:
    """The same after another run."""
    given = ["--bootstrap", topics.bootstrap, "--topic", "flights", "--to", str(half_a_lake)]
    before = spark.read.parquet(str(half_a_lake)).count()
    assert 0 < before < FLIGHTS, "it was killed half-way"
    report = lake.run(spark, lake.parser().parse_args([*given, "--available-now", "--audit"]))
    assert report["exit"] == 0
    assert report["audit"]["present"] == FLIGHTS
    return half_a_lake


def test_a_lake_has_every_row_once_though_its_job_was_killed(
    spark: SparkSession, topics: Cluster, whole_lake: Path
) -> None:
    in_topic = sorted((r.partition, r.offset) for r in ottla.read("flights", bootstrap=topics.bootstrap))
    assert rows_of(spark, whole_lake) == in_topic


def flight_of(record: ottla.Record[Any, Any]) -> Flight:
    """As it was before `replay` sent it once more, which is in its headers."""
    row, at_ms = record.header("row"), record.header("original-timestamp")
    assert row is not None
    assert at_ms is not None
    assert record.key is not None
    return Flight(int(row), record.key, int(at_ms), record.value)


def test_replay_sends_a_stretch_of_time_once_more(
    run: Callable[..., dict[str, Any]], topics: Cluster, flights: list[Flight], tmp_path: Path
) -> None:
    start_ms, end_ms = flights[500].timestamp_ms, flights[1_200].timestamp_ms
    wanted = [each for each in flights if start_ms <= each.timestamp_ms < end_ms]
    given = ["--topic", "flights", "--from", f"{pd.Timestamp(start_ms, unit='ms')}Z", "--to", end_ms]
    assert run(replay, *given, "--to-topic", "replayed", "--keep-partitions") == {"records": len(wanted)}
    assert run(replay, *given, "--to-parquet", tmp_path / "stretch") == {"records": len(wanted)}
    sent = list(ottla.read("replayed", bootstrap=topics.bootstrap, key="str", value="bytes"))
    assert {flight_of(record) for record in sent} == set(wanted)
    assert len(sent) == len(wanted)
    places = {each.key: each.partition for each in ottla.read("flights", bootstrap=topics.bootstrap, key="str")}
    assert all(record.partition == places[record.key] for record in sent)
    for partition in range(3):
        rows = [flight_of(record).number for record in sent if record.partition == partition]
        assert rows == sorted(rows), "the order of each partition stays"
    frame = pd.read_parquet(tmp_path / "stretch")
    assert sorted(frame.value) == sorted(each.value for each in wanted)


def test_snapshot_is_the_newest_value_of_every_key_and_turns_as_a_whole(
    run: Callable[..., dict[str, Any]], topics: Cluster, tmp_path: Path
) -> None:
    table = tmp_path / "accounts"

    def send(*rows: tuple[str, object]) -> None:
        with ottla.Producer(topics.bootstrap, topic="accounts", value="json") as producer:
            assert producer.send_many(rows)

    def read() -> dict[str, float]:
        return {row.key.decode(): row.total for row in pd.read_parquet(table).itertuples()}

    given = ["--topic", "accounts", "--to", table, "--json", "total INT"]
    ottla.Admin(topics.bootstrap).topics.create("accounts", partitions=3)
    send(*((f"k{n % 7}", {"total": n}) for n in range(100)))
    assert run(snapshot, *given) == {"rows": 7, "version": 1}
    assert read() == {f"k{n % 7}": n for n in range(93, 100)}
    send(("k0", {"total": 1000}), ("k1", None))
    first = table.resolve()
    assert run(snapshot, *given) == {"rows": 6, "version": 2}
    assert read() == {**{f"k{n % 7}": n for n in range(93, 100) if n % 7 > 1}, "k0": 1000}
    assert first.exists(), "whoever reads the one before goes on"
    run(snapshot, *given)
    assert not first.exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="this job did not create it"):
        run(snapshot, "--topic", "accounts", "--to", tmp_path / "mine")


def audited(run: Callable[..., dict[str, Any]], path: Path) -> tuple[int, dict[str, Any]]:
    report = run(audit, "--topic", "flights", "--lake", path)
    return report["exit"], report


def test_audit_finds_what_is_missing_repeated_and_late(
    run: Callable[..., dict[str, Any]], topics: Cluster, whole_lake: Path, flights: list[Flight], tmp_path: Path
) -> None:
    path = Path(
        shutil.copytree(whole_lake, tmp_path / "lake", ignore=shutil.ignore_patterns("_spark_metadata", "*.crc"))
    )
    code, report = audited(run, path)
    whole = sum(each["present"] for each in report["partitions"])
    assert (code, report["ok"], report["present"], report["missing"]) == (0, True, whole, 0)
    with ottla.Producer(topics.bootstrap, topic="flights", key="str", value="bytes") as producer:
        producer.send(b"{}", key="UA", timestamp=flights[-1].timestamp_ms + 60_000)
    code, report = audited(run, path)
    assert (code, report["lag"], report["missing"]) == (0, 1, 0), "lag is no loss"
    assert report["lag_s"] >= 60

    file = max(path.glob("day=*/*.parquet"), key=lambda each: each.stat().st_size)
    rows = pq.ParquetFile(file).read()
    write = partial(pq.write_table, where=file, use_deprecated_int96_timestamps=True)  # as Spark does
    write(rows.slice(1))
    code, report = audited(run, path)
    assert (code, report["missing"], report["present"]) == (3, 1, whole - 1)
    (lossy,) = [each for each in report["partitions"] if each["missing"]]
    assert (lossy["partition"], lossy["first_missing"]) == (rows["partition"][0].as_py(), rows["offset"][0].as_py())

    write(pa.concat_tables([rows, rows.slice(0, 2)]))
    code, report = audited(run, path)
    assert (code, report["missing"], report["repeated"]) == (3, 0, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay", "--topic", "flights", "--console", "--from", "yesterday"], 2, "yesterday is not a time"),
        (["replay", "--topic", "flights"], 2, "--to-topic"),
        (["lake", "--topic", "flights"], 2, "--to"),
        (["lake", "--topic", "flights", "--to", "x", "--max-records", "0"], 2, "0 is less than 1"),
        (["delays", "--to-parquet", "x", "--conf", "spark"], 2, "NAME=VALUE"),
        (["audit", "--topic", "flihgts", "--lake", "x"], 1, "flihgts"),
    ],
)
def test_what_is_asked_wrongly_is_answered_in_words(
    topics: Cluster, arguments: list[str], code: int, said: str
) -> None:
    with command(topics, *arguments) as process:
        out, err = process.communicate(timeout=SPARK_LIMIT_S)
    assert (process.returncode, out) == (code, "")
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err
