"""Locust and a Spark job in the secured stack: each logs in as its own user, who may do what it needs and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.compose.project import Project
from tests.compose.spark_job import COPY, SparkReport, run_a_job
from tests.compose.spark_job import TOPIC as SPARK_TOPIC
from tests.compose.traffic import Access
from tests.compose.visitor import visit
from tests.hosts.shell import ProofError, run, say

import ottla
from ottla_stack.container_users import LOAD, SPARK

SPARK_RECORDS: Final = 4_000
_PRODUCES: Final = "ProduceKeyed"
"""This is the only scenario here that writes to LOAD_TOPIC."""
LOAD_TOPIC: Final = "load-produce"
_SCENARIOS: Final = (_PRODUCES, "EndToEnd", "Transactions", "Replay", "GroupChurn")
_USERS: Final = 7
"""There is one user of each scenario, and three of GroupChurn."""
_LOAD_S: Final = 8
_RATE: Final = 500
_LIMIT_S: Final = 180.0
_CLIENT: Final = Path(__file__).with_name("restricted_client.py")
_REFUSED: Final = "TOPIC_AUTHORIZATION_FAILED"
_DONE: Final = "done"


def load(project: Project, access: Access, topic: str) -> int:
    """Run Locust's scenarios, and return how many of its records are read back. Raises ProofError if a batch fails, if
    a record is missing, or if its user can use another topic."""
    arguments = [f"--users={_USERS}", f"--run-time={_LOAD_S}s", "--shape=soak", f"--rate={_PRODUCES}={_RATE}"]
    said = project.run("load", *arguments, "--result=-", *_SCENARIOS, timeout_s=_LIMIT_S)
    told = json.loads(said.splitlines()[-1])
    if told["failures"] or sorted(told["scenarios"]) != sorted(_SCENARIOS):
        raise ProofError(f"{told['failures']} batches failed, in {', '.join(told['scenarios'])}")
    sent, found = told["scenarios"][_PRODUCES]["records"], _count(access, LOAD_TOPIC)
    if not sent == found <= 2 * _RATE * _LOAD_S:
        raise ProofError(f"Locust has sent {sent} records, and {found} are in {LOAD_TOPIC}")
    may_not = [("read", topic), ("write", topic), ("create", "not-of-a-load-test")]
    _expect(LOAD, {("write", LOAD_TOPIC): _DONE, **dict.fromkeys(may_not, _REFUSED)})
    say(f"Locust logged in as {LOAD}: {told['records']} records in {len(_SCENARIOS)} scenarios, none of them failed")
    return found


def spark(project: Project, access: Access, topic: str) -> SparkReport:
    """Run a job, once ACLs allow it. Raises ProofError if a record is missing, or if the user of Spark may do anything
    without an ACL, or more than the ACLs allow."""
    with ottla.Admin(access.bootstrap, config=access.config) as admin:
        for name in (SPARK_TOPIC, COPY):
            admin.topics.create(name, partitions=4)
    _expect(SPARK, {("read", SPARK_TOPIC): _REFUSED, ("write", COPY): _REFUSED})
    run([*access.ottla, "acl", "add", SPARK, "read", f"topic:{SPARK_TOPIC}"])
    run([*access.ottla, "acl", "add", SPARK, "write", f"topic:{COPY}"])
    report = run_a_job(project, access, SPARK_RECORDS)
    refused = [("write", SPARK_TOPIC), ("read", COPY), ("read", topic)]
    _expect(SPARK, {("read", SPARK_TOPIC): _DONE, **dict.fromkeys(refused, _REFUSED)})
    say(f"the job logged in as {SPARK}, and that user may do nothing else")
    return report


def _count(access: Access, topic: str) -> int:
    with ottla.Consumer(
        topic, bootstrap=access.bootstrap, config=access.config, start="earliest", stop="end", value="bytes"
    ) as consumer:
        return sum(1 for _ in consumer)


def _expect(user: str, wanted: dict[tuple[str, str], str]) -> None:
    """Raise ProofError unless each try of the user ends as it should."""
    told = json.loads(visit(_CLIENT, json.dumps(list(wanted)), keys_of=user))
    if told != list(wanted.values()):
        raise ProofError(f"{user} wants to {list(wanted)} and gets {told}, not {list(wanted.values())}")
