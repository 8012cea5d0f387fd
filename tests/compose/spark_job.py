"""The profile `spark`: a job goes to a master and two workers in containers, and copies one topic into another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.compose.project import Project
from tests.compose.traffic import OPEN, Access
from tests.hosts.shell import ProofError, say, wait_for

import ottla

PROFILE: Final = "spark"
TOPIC: Final = "for-spark"
COPY: Final = "by-spark"
PARTITIONS: Final = 4
RECORDS: Final = 20_000
_WORKERS: Final = ("spark-worker-0", "spark-worker-1")
_UP_S: Final = 120.0
_JOB_S: Final = 300.0


@dataclass
class SparkReport:
    copied: int = 0
    """Records that are in the other topic, each once and in its place."""
    workers: int = 0
    """That have had an executor."""


def run_a_job(project: Project, access: Access = OPEN, records: int = RECORDS) -> SparkReport:
    """Raises ProofError where a record is missing or comes twice, or where a worker has no part in it."""
    with ottla.Admin(access.bootstrap, config=access.config) as admin:
        for topic in (TOPIC, COPY):
            admin.topics.create(topic, partitions=PARTITIONS, if_exists="ok")
    with ottla.Producer(access.bootstrap, topic=TOPIC, config=access.config, value="bytes") as producer:
        for n in range(records):
            producer.send(b"%d" % n, partition=n % PARTITIONS)
    project("--profile", PROFILE, "up", "-d", *_WORKERS, timeout_s=_UP_S)
    seconds = wait_for(lambda: _that_said(project, "Successfully registered") == [*_WORKERS], "workers", limit_s=_UP_S)
    say(f"{' and '.join(_WORKERS)} are known to their master after {seconds:.1f} s")
    job = ("spark-job", "jobs/replay.py", "--topic", TOPIC, "--to-topic", COPY, "--keep-partitions")
    said = project("--profile", PROFILE, "run", "--rm", "-T", *job, timeout_s=_JOB_S)
    told = json.loads(said.splitlines()[-1])
    with ottla.Consumer(
        COPY, bootstrap=access.bootstrap, config=access.config, start="earliest", stop="end", value="bytes"
    ) as consumer:
        found = [(record.partition, record.offset, int(record.value)) for record in consumer]
    if told != {"records": records} or sorted(found) != sorted(
        (n % PARTITIONS, n // PARTITIONS, n) for n in range(records)
    ):
        raise ProofError(f"the job tells {told}; {len(found)} of {records} records are in {COPY}, or in another order")
    ran = _that_said(project, "Asked to launch executor")
    if ran != [*_WORKERS]:
        raise ProofError(f"executors ran on {', '.join(ran) or 'no worker'} alone")
    say(f"{records} records went through executors on both into {COPY}")
    return SparkReport(len(found), len(ran))


def _that_said(project: Project, words: str) -> list[str]:
    """The workers whose log has these."""
    return [worker for worker in _WORKERS if words in project.log(worker)]
