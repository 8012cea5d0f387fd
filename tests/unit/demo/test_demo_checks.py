"""What the demo compares with pandas, the Java it looks for, and the row that its self-test takes from a lake."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.demo import jdk, spark_job
from examples.demo.pandas_check import by_pandas, differences
from examples.demo.planted import plant_in_lake

HOURS = pd.MultiIndex.from_product([["EWR", "JFK"], pd.date_range("2013-01-01", periods=3, freq="h", tz="UTC")])
TABLE = pd.DataFrame({"flights": [3, 1, 4, 1, 5, 9], "mean_delay": [0.5, None, 2.5, 3.0, -1.0, 0.0]}, index=HOURS)


def test_every_hour_that_differs_is_counted() -> None:
    assert differences(TABLE, TABLE) == 0
    assert differences(TABLE.sample(frac=1, random_state=1), TABLE) == 0, "in any order"
    assert differences(TABLE[["flights"]], TABLE) == 0, "columns that were not asked for"
    assert differences(TABLE.drop(index=HOURS[0]), TABLE) == 1
    assert differences(TABLE, TABLE.drop(index=HOURS[:2])) == 2
    assert differences(TABLE.replace(9, 8), TABLE) == 1
    assert differences(TABLE.fillna(0.0), TABLE) == 1, "no mean is not a mean of nothing"


def test_an_hour_that_is_there_twice_is_counted() -> None:
    assert differences(pd.concat([TABLE, TABLE.head(1)]), TABLE) == 1


def test_pandas_takes_the_first_flights_in_the_order_they_are_sent() -> None:
    table = by_pandas(1_000)
    assert (table.flights.sum(), table.index.names) == (1_000, ["origin", "hour"])
    assert (table.departed + table.cancelled <= table.flights).all()
    assert table.wind_speed.notna().any()


@pytest.mark.parametrize(
    ("java", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("nothing of the kind", None),
    ],
)
def test_the_version_of_java_is_read(
    java: str, version: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{java}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jdk.java_version() == version
    assert bool(spark_job.missing_reason()) == (version is None or version < jdk.LEAST)


def test_without_java_the_one_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert jdk.java_version() is None
    assert spark_job.missing_reason() == "it needs Java: install a JDK of 17 or newer"
    (tmp_path / "apt-get").symlink_to(shutil.which("true", path="/bin:/usr/bin") or "")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian", "VERSION_ID": "12"})
    assert spark_job.missing_reason() == "it needs Java: apt-get install openjdk-17-jre-headless"
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian", "VERSION_ID": "13"})
    assert spark_job.missing_reason() == "it needs Java: apt-get install openjdk-21-jre-headless"


def test_the_lake_loses_one_row_and_its_list_of_files_stays_right(tmp_path: Path) -> None:
    for month, rows in {"2013-01": 5, "2013-02": 50}.items():
        (tmp_path / f"month={month}").mkdir()
        pq.write_table(pa.table({"offset": range(rows)}), tmp_path / f"month={month}" / "part-0.parquet")
    files = sorted(tmp_path.glob("*/*.parquet"))
    log = tmp_path / "_spark_metadata" / "0"
    log.parent.mkdir()
    entries = [json.dumps({"path": f"file://{file}", "size": file.stat().st_size}) for file in files]
    log.write_text("\n".join(["v1", *entries]))
    plant_in_lake(tmp_path)
    assert [len(pq.ParquetFile(file).read()) for file in files] == [5, 49]
    head, *listed = log.read_text().split("\n")
    assert head == "v1"
    assert [json.loads(line)["size"] for line in listed] == [file.stat().st_size for file in files]
