"""Small files of a lake become large ones, beside readers, the job that writes it, and runs that are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import audit
import compact
import lake
import ottla
from ottla.testing import Cluster

TOPIC = "compacted"
DAYS_MS = (1_356_998_400_000, 1_357_084_800_000)

Run = Callable[..., dict[str, Any]]


def send(cluster: Cluster, count: int) -> None:
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, value="bytes") as producer:
        for number in range(count):
            producer.send(b"%d" % number, timestamp=DAYS_MS[number % 2] + number)


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster) -> Run:
    def run(job: Any, *arguments: object) -> dict[str, Any]:
        given = ["--bootstrap", cluster.bootstrap, *map(str, arguments)]
        return dict(job.run(spark, job.parser().parse_args(given)))

    return run


def read(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row.offset for row in spark.read.parquet(str(path)).select("offset").collect())


def files(path: Path) -> list[Path]:
    return sorted(path.glob("day=*/*.parquet"))


@pytest.mark.story("spark-compacted-beside-its-job")
def test_a_lake_is_the_same_before_and_after(
    spark: SparkSession, cluster: Cluster, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a lake"
    write = (lake, "--topic", TOPIC, "--to", path, "--max-records", 4, "--available-now")
    compacting = (compact, "--lake", path)
    ottla.Admin(cluster.bootstrap).topics.create(TOPIC, config={"retention.ms": "-1"})
    send(cluster, 12)
    run(*write)
    assert run(*compacting) == {"replaced": 0, "written": 0, "deleted": 0}, "a list of all files comes with the tenth"
    send(cluster, 36)
    run(*write)
    before, small = spark.read.parquet(str(path)), files(path)
    assert len(small) == 24

    with monkeypatch.context() as patch:  # killed with everything written
        patch.setattr(compact, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(*compacting)
    assert read(spark, path) == list(range(48))
    assert len(files(path)) == 26

    assert run(*compacting, "--grace", 0) == {"replaced": 20, "written": 2, "deleted": 2}
    assert read(spark, path) == list(range(48))
    assert run(*compacting) == {"replaced": 0, "written": 0, "deleted": 0}
    assert before.count() == 48, "who has listed the files before reads them"
    assert run(*compacting, "--grace", 0)["deleted"] == 20
    assert len(files(path)) == 6
    assert spark.read.parquet(str(path)).where("day = '2013-01-02'").count() == 24

    send(cluster, 40)  # the job goes on, and its next list names what the small files have become
    run(*write)
    assert (path / "_spark_metadata" / "19.compact").exists()
    assert read(spark, path) == list(range(88))
    overtaken(path, run, compacting, monkeypatch)
    assert read(spark, path) == list(range(88))
    assert run(audit, "--topic", TOPIC, "--lake", path)["ok"]


def overtaken(path: Path, run: Run, compacting: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a list is replaced, the lake's job writes the next one from what it has read before."""
    replace, metadata = compact.replace, path / "_spark_metadata"

    def too_late(listing: Path, *arguments: Any) -> None:
        deltas = [each.read_text().split("\n", 1)[1] for each in metadata.glob("2[0-9]")]
        (metadata / "29.compact").write_text("\n".join([listing.read_text(), *deltas]))
        replace(listing, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(compact, "replace", too_late)
        done = run(*compacting)
    before = files(path)
    assert run(compact, "--lake", path, "--grace", 0, "--small", 0)["deleted"] == done["written"] > 0
    assert len(files(path)) == len(before) - done["written"]


def test_two_at_once_and_what_is_no_lake_are_errors(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the output of a streaming query"):
        run(compact, "--lake", tmp_path)
    (tmp_path / "_spark_metadata").mkdir()
    with compact._alone(tmp_path), pytest.raises(ValueError, match="is being compacted"):
        run(compact, "--lake", tmp_path)
