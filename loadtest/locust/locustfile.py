"""Load on a cluster with Locust; `make load` and `make soak` run it against a stack of their own.

    python -m locust -f loadtest/locust/locustfile.py -H localhost:9092 --headless --shape spike -u 12 -t 60s
    python -m locust -f loadtest/locust/locustfile.py -H localhost:9092 --headless ProduceKeyed EndToEnd
    python -m locust -f loadtest/locust/locustfile.py --cluster-profile production --headless -t 60s

-H names brokers (else the profile or OTTLA_BOOTSTRAP), --cluster-profile has the login and the TLS of a cluster (else
OTTLA_PROFILE, unless there is -H), -u is the most users, -t the time; names of user classes choose scenarios.
Several processes (--processes, or --master and --worker) count as one. Exits with 1 where a threshold is not kept.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from locust import events
from locust.runners import WorkerRunner

from loadtest.locust import topics
from loadtest.locust.curves import CURVES
from loadtest.locust.rates import parse_rates
from loadtest.locust.shapes import Shape
from loadtest.locust.thresholds import Thresholds
from loadtest.locust.timeline import Timeline
from loadtest.locust.users import (
    EndToEnd,
    GroupChurn,
    Mirrored,
    ProduceAcksLeader,
    ProduceAcksNone,
    ProduceKeyed,
    ProduceLarge,
    ProduceSmall,
    Replay,
    Transactions,
)
from loadtest.rows.clients import reach_of
from ottla.errors import OttlaError

__all__ = [
    "EndToEnd",
    "GroupChurn",
    "Mirrored",
    "ProduceAcksLeader",
    "ProduceAcksNone",
    "ProduceKeyed",
    "ProduceLarge",
    "ProduceSmall",
    "Replay",
    "Shape",
    "Transactions",
]

timeline, churn = Timeline(), GroupChurn.churn


@events.init_command_line_parser.add_listener
def add_arguments(parser: Any) -> None:
    group = parser.add_argument_group("ottla")
    group.add_argument("--shape", choices=sorted(CURVES), default="soak", help="How users come and go.")
    group.add_argument(
        "--rate", type=parse_rates, default={}, metavar="NAME=N,...", help="Records/s of a scenario's user."
    )
    group.add_argument(
        "--mirrored",
        type=topics.parse_copies,
        metavar="ALIAS@HOST:PORT",
        help="Another cluster, with copies of the topics here by a mirror that runs: the scenario Mirrored.",
    )
    group.add_argument(
        "--cluster-profile",
        default="",
        metavar="NAME",
        help="The cluster's addresses, login and TLS, from the file that `ottla --profile` reads. "
        "Default: OTTLA_PROFILE, unless -H is set.",
    )
    group.add_argument("--result", default="", metavar="FILE", help="Where the figures go, as JSON; - prints them.")
    group.add_argument("--min-requests", type=int, default=1, help="Fewer than so many batches are a failure.")
    group.add_argument("--min-records", type=int, default=1, help="Fewer than so many records are a failure.")
    group.add_argument("--max-p99-ms", type=float, default=float("inf"), help="A slower 99th percentile is a failure.")
    group.add_argument("--min-rebalances", type=int, default=0, help="Fewer than so many rebalances are a failure.")


@events.init.add_listener
def on_init(environment: Any, **_: Any) -> None:
    """Before any user: without topics there is no test."""
    try:
        environment.reach = reach_of(environment.host, environment.parsed_options.cluster_profile)
    except OttlaError as error:
        sys.exit(f"load test: {error}")
    copies: topics.Copies | None = environment.parsed_options.mirrored
    if copies is None and Mirrored in environment.user_classes:
        environment.user_classes.remove(Mirrored)
    if isinstance(environment.runner, WorkerRunner):
        return
    try:
        topics.prepare(environment.reach)
        if copies is not None:
            topics.wait_for_copy(copies)
    except OttlaError as error:
        sys.exit(f"load test: {error}")


@events.request.add_listener
def on_request(
    request_type: str, name: str, response_time: float, context: dict[str, Any], exception: Any, **_: Any
) -> None:
    latency_us, failed = max(0, round(response_time * 1000)), exception is not None
    waits = request_type == GroupChurn.kind
    timeline.on_request(time.time(), name, context["records"], latency_us, failed=failed, waits=waits)


@events.report_to_master.add_listener
def on_report_to_master(client_id: str, data: dict[str, Any]) -> None:
    data["timeline"], data["churn"] = timeline.take(), churn.take()


@events.worker_report.add_listener
def on_worker_report(client_id: str, data: dict[str, Any]) -> None:
    timeline.add(data["timeline"])
    churn.add(data["churn"])


@events.quitting.add_listener
def on_quitting(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, WorkerRunner):
        return
    options, report = environment.parsed_options, timeline.report()
    if memberships := report["scenarios"].get(GroupChurn.__name__):
        report["groups"] = churn.report(memberships, report["seconds"])
    if options.result == "-":
        print(json.dumps(report))
    elif options.result:
        Path(options.result).write_text(json.dumps(report))
    floors = options.min_requests, options.min_records
    for breach in Thresholds(*floors, options.max_p99_ms, options.min_rebalances).breaches(report):
        print(f"load test: {breach}", file=sys.stderr)
        environment.process_exit_code = 1
