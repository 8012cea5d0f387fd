"""The main job, end to end, as a user would do it.

It starts a cluster and produces flights and weather. Spark joins them as they come, and a group of consumers shows the
result. Another group reads the flights. Spark keeps them as a lake. Everything is compared with the files that it came
from. With `--full`, Spark's driver is killed half-way, every broker is restarted, and a member of the group is killed.

`--selftest` plants three faults in a smaller full run (a record that is never sent, two that are swapped, a row that
the lake has lost) and fails unless all are found. Without a Java for Spark, the rest runs, without the third fault. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from examples.demo.audit import flights_on_disk
from examples.demo.flights import FLIGHTS, TOPIC, Flight, digest, read_flights
from examples.demo.folder import in_folder
from examples.demo.group import MEMBERS, read_as_group
from examples.demo.live_table import LiveTable
from examples.demo.pandas_check import by_pandas
from examples.demo.pipeline import Pipeline
from examples.demo.planted import plant_in_flights
from examples.demo.plot import plot
from examples.demo.producing import MONTH_S, SLOW_MONTH_S, create_topics, produce, tick
from examples.demo.spark_job import missing_reason
from examples.demo.stages import Stages
from examples.demo.weather import read_weather
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import ottla
from ottla_stack.running import RunningStack

BROKERS: Final = 3
SELFTEST_FLIGHTS: Final = 5_000
PICTURE: Final = "ottla-demo-delays.png"

_console = Console(stderr=True)


def run(directory: Path, source: list[Flight], *, full: bool, selftest: bool) -> dict[str, Any]:
    """Run everything in the directory, and return the fields of the last line."""
    began_at, stages = time.monotonic(), Stages(_console)
    sent = plant_in_flights(source) if selftest else source
    picture = None if selftest else Path.cwd() / PICTURE
    with ExitStack() as ended:
        with stages.stage("cluster", f"{BROKERS} brokers, a controller, coordinators and etcd start"):
            stack = ended.enter_context(RunningStack(directory, brokers=BROKERS, txn_coordinators=2))
            create_topics(stack.bootstrap)
        if missing := missing_reason():
            _console.print(f"[bold]without Spark:[/bold] {missing}")
        pipeline = None if missing else ended.enter_context(Pipeline(stack.bootstrap, directory))
        report = flow(stack, directory, source, sent, pipeline, stages, full=full)
        topic_id = ottla.Admin(stack.bootstrap).topics.describe(TOPIC)[0].id
        by_spark = spark_results(pipeline, len(source), picture, stages, selftest=selftest)
    with stages.stage("disk", "kafka-python decodes the brokers' segment files"):
        logs = [directory / f"broker-{n}" for n in range(BROKERS)]
        on_disk = {f.number: f for f in flights_on_disk(logs, topic_id)}
        wrong_on_disk = sum(on_disk.get(f.number) != f for f in source)
    show(report.pop("delays"))
    return {
        "demo": TOPIC,
        "records_in": len(source),
        "records_out": report["records_out"],
        "records_on_disk": len(on_disk),
        "sha256_in": digest(source),
        "sha256_out": report["sha256_out"],
        "mismatches": report["mismatches"] + wrong_on_disk,
        "order_violations": report["order_violations"],
        "brokers": BROKERS,
        **{name: report[name] for name in ("pids", "members", "killed", "repeated")},
        **by_spark,
        "stages": stages.seconds,
        "seconds": round(time.monotonic() - began_at, 1),
    }


def flow(
    stack: RunningStack,
    directory: Path,
    source: list[Flight],
    sent: list[Flight],
    pipeline: Pipeline | None,
    stages: Stages,
    *,
    full: bool,
) -> dict[str, Any]:
    """Write the records into the topics and read them again. Return what the group read, and the brokers' pids."""
    columns = (TextColumn("producing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=_console)
    seen = read_weather(source[-1].timestamp_ms)
    if pipeline and full:  # or else Spark starts while the records are written
        with stages.stage("spark", "a streaming query starts"):
            pipeline.wait_until_running()
    with LiveTable(stack.bootstrap, _console, progress) if pipeline else progress as screen:
        task = progress.add_task("", total=len(sent))

        def on_sent(count: int) -> None:
            progress.update(task, completed=count)
            if full and pipeline and count >= len(sent) // 2:
                pipeline.kill_driver()

        with stages.stage("produce", "flights and weather go into topics; Spark starts, and joins them as they come"):
            produce(stack.bootstrap, sent, seen, on_sent, SLOW_MONTH_S if full else MONTH_S)
        pids: list[int] = []
        if full:
            with stages.stage("restart", "every broker is restarted"):
                pids = stack.restart(*(f"broker-{n}" for n in range(BROKERS)))
        if pipeline:
            pipeline.begin_lake()
        dies = "; one of them is killed half-way" if full else ""
        with stages.stage("group", f"a group of {MEMBERS} processes reads the topic{dies}"):
            report = read_as_group(stack.bootstrap, directory, source, len(sent), kills=full)
        if pipeline and isinstance(screen, LiveTable):
            with stages.stage("windows", "the streaming query and the readers of its result catch up"):
                pipeline.wait_until_it_has_read(len(sent))
                tick(stack.bootstrap, source[-1].timestamp_ms)  # a flight that it overtook would come too late
                pipeline.delays.wait_for(lambda: screen.flights() >= len(sent), "the last of its windows")
    return {**report, "pids": pids}


def spark_results(
    pipeline: Pipeline | None, count: int, picture: Path | None, stages: Stages, *, selftest: bool
) -> dict[str, Any]:
    """Return the fields about Spark. Without it, the picture shows what pandas has computed."""
    if pipeline:
        with stages.stage("lake", "Spark compares its lake with the topic, and pandas checks both"):
            return pipeline.finish(count, picture, drop_a_row=selftest)
    if picture:
        plot(by_pandas(count), picture)
    return {
        "batches": 0,
        "driver_killed": 0,
        "lake_rows": 0,
        "lake_equals_pandas": None,
        "plot": picture and str(picture),
    }


def show(delays: dict[str, list[float]]) -> None:
    """Print the delays of each carrier, as the group that read the flights has them."""
    table = Table("carrier", "flights", "cancelled", "mean departure delay", title="New York, 2013")
    for carrier, (flights, flown, minutes) in sorted(delays.items(), key=lambda item: -item[1][0]):
        mean = f"{minutes / flown:.1f} min" if flown else ""
        table.add_row(carrier, f"{flights:,.0f}", f"{flights - flown:,.0f}", mean)
    _console.print(table)


def verdict(result: dict[str, Any], *, full: bool) -> bool:
    """Whether everything came out as it went in, and what a full run kills was killed."""
    counts = {result["records_in"], result["records_out"], result["records_on_disk"]}
    same = len(counts) == 1 and result["sha256_in"] == result["sha256_out"]
    right = same and not result["mismatches"] and not result["order_violations"] and result["killed"] == full
    return right and _spark_is_right(result, full=full)


def _spark_is_right(result: dict[str, Any], *, full: bool) -> bool:
    if result["lake_equals_pandas"] is None:
        return True
    same = result["lake_equals_pandas"] and result["windows_equal_pandas"] and result["topic_equals_pandas"]
    kept = result["lake_rows"] == result["records_in"] and not result["lake_missing"] + result["lake_repeated"]
    return bool(same and kept and result["driver_killed"] == full)


def found(result: dict[str, Any]) -> dict[str, bool]:
    """Return for each planted fault whether it was found."""
    faults = {
        "dropped": result["records_out"] == result["records_in"] - 1,
        "swapped": result["order_violations"] > 0,
    }
    if result["lake_equals_pandas"] is not None:
        # By the audit and by pandas: the hour of the dropped record, and the hour of the row that the lake has lost.
        faults["dropped"] &= result["windows_differ_in"] == result["topic_differs_in"] == 1
        faults["lost by the lake"] = result["lake_missing"] == 1 and result["lake_differs_in"] == 2
    return faults


def main(arguments: Iterable[str] | None = None) -> int:
    """Exit codes: 0 if everything is right, 1 if it is not, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--full", action="store_true", help="kill a driver and a member, and restart every broker")
    parser.add_argument("--selftest", action="store_true", help="plant three faults, and fail unless all are found")
    given = parser.parse_args(None if arguments is None else list(arguments))
    selftest, full = given.selftest, given.full or given.selftest
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the clean-up below runs
    most = SELFTEST_FLIGHTS if selftest else FLIGHTS
    result = in_folder(lambda directory: run(directory, read_flights(most), full=full, selftest=selftest), _console)
    if not selftest:
        print(json.dumps(result))
        return 0 if verdict(result, full=full) else 1
    faults = found(result)
    passed = all(faults.values()) and not verdict(result, full=full)
    summary = {"demo": "flights-selftest", "planted": len(faults), "found": sum(faults.values()), "ok": passed}
    print(json.dumps({**result, **summary}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
