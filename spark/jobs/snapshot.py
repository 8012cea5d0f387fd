"""The newest value of every key as a table: one Parquet directory, replaced as a whole.

A key whose newest record has no value is not in the table, as after compaction. `--to` is a link to a directory in
`<to>.versions`; the new one is complete before the link turns to it in one step, and the one before it stays for
readers that still use it. So `--to` is on a local or mounted file system.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import job


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments."""
    found = job.parser(__doc__)
    found.add_argument("--topic", required=True, help="the topic to read")
    found.add_argument("--to", required=True, type=Path, metavar="DIR", help="the directory of the table")
    found.add_argument("--json", metavar="COLUMNS", help="read these columns of the JSON values, such as 'id INT'")
    return found


def run(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    """Return the number of rows and the table's version. Raises ValueError if `--to` is something else."""
    version = next_version(options.to)
    table = newest(job.read_topics(spark, options, options.topic))
    if options.json:
        table = table.withColumn("value", f.from_json(f.col("value").cast("string"), options.json))
        table = table.select("key", "value.*", "timestamp", "partition", "offset")
    table.write.parquet(str(version))
    rows = spark.read.parquet(str(version)).count()
    turn(options.to, version)
    return {"rows": rows, "version": int(version.name)}


def newest(records: DataFrame) -> DataFrame:
    """Return one row per key. The order in a partition is that of offsets. A key that moved to another partition is
    ordered by time."""
    row = f.struct("key", "value", "timestamp", "partition", "offset")
    of_partition = (
        records.where("key IS NOT NULL").groupBy("key", "partition").agg(f.max_by(row, "offset").alias("row"))
    )
    of_key = of_partition.groupBy("key").agg(f.max_by("row", "row.timestamp").alias("row"))
    return of_key.select("row.*").where("value IS NOT NULL")


def next_version(table: Path) -> Path:
    """Return the directory of the next version. Raises ValueError if `table` exists and this job did not create it."""
    if table.exists() and not table.is_symlink():
        raise ValueError(
            f"{table} already exists, and this job did not create it; give another --to, or move the existing directory"
        )
    versions = _versions(table)
    return versions / str(max([0, *(int(entry.name) for entry in versions.glob("*") if entry.name.isdigit())]) + 1)


def turn(table: Path, version: Path) -> None:
    """Make `table` point to `version` from now on. Of the older versions, the one that was read until now stays."""
    link = table.with_name(f"{table.name}.next")
    link.unlink(missing_ok=True)
    link.symlink_to(Path(version.parent.name) / version.name)
    before = os.readlink(table) if table.is_symlink() else ""
    os.replace(link, table)
    for other in _versions(table).iterdir():
        if other.name not in (version.name, Path(before).name):
            shutil.rmtree(other)


def _versions(table: Path) -> Path:
    return table.with_name(f"{table.name}.versions")


if __name__ == "__main__":
    sys.exit(job.main(parser(), run))
