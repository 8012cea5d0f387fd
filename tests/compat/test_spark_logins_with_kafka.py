"""`format("ottla")` with Apache Kafka that expects a login, on a Spark cluster, and what Spark writes down of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.spark.standalone import StandaloneCluster
from secured_kafka import USERS, SecuredKafka, private_file
from tests.compat.cells import DIFFERS
from waiting import SPARK_LIMIT_S

import ottla

JOB = Path(__file__).with_name("secured_job.py")
PARTITIONS = 2
RECORDS = 200
QUERY = "SparkListenerSQLExecutionStart"
"""The event that has a query's plan."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"), settings={"super.users": "User:ANONYMOUS;User:alice"})
    with kafka.server:
        yield kafka


@pytest.fixture(scope="module")
def home(kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the password and the one with the profile, which are on each machine."""
    home = tmp_path_factory.mktemp("home")
    private_file(home / "password", USERS["alice"])
    (home / "config.toml").write_text(
        f"""
        [profiles.prod]
        bootstrap.servers = "{kafka.server.bootstrap_of("SASL_SSL")}"
        security.protocol = "SASL_SSL"
        sasl.mechanism = "SCRAM-SHA-256"
        sasl.username = "alice"
        sasl.password.file = "password"
        ssl.truststore.location = "{kafka.authority.certificate}"
        """
    )
    return home


@pytest.fixture(scope="module")
def workers(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Start workers whose executors inherit this process's environment, with a config file and a password added."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_CONFIG", str(home / "config.toml"))
        patch.setenv("EVERYWHERE", USERS["alice"])
        with StandaloneCluster(tmp_path_factory.mktemp("spark") / "cluster", workers=1) as running:
            yield running


def login(kafka: SecuredKafka, listener: str, mechanism: str, **password: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in kafka.settings(listener, mechanism, **password).items()}


class Job:
    """A job that has run. Its folder has what Spark wrote, and the logs of the driver and an executor."""

    def __init__(self, workers: StandaloneCluster, home: Path, folder: Path, **options: dict[str, str]) -> None:
        self.folder = folder
        for name in ("events", "checkpoint"):
            (folder / name).mkdir(parents=True)
        settings = {
            "spark.master": workers.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.log.level": "INFO",
            "spark.redaction.regex": "(?!)",  # nothing is redacted, so that Spark hides nothing from this test
        }
        arguments: dict[str, Any] = {**options, "settings": settings, "checkpoint": str(folder / "checkpoint")}
        environment = {**os.environ, "OTTLA_CONFIG": str(home / "config.toml"), "PYSPARK_PYTHON": sys.executable}
        environment |= {"EVERYWHERE": USERS["alice"], "ONLY_AT_THE_DRIVER": USERS["alice"]}
        self.done = subprocess.run(
            [sys.executable, str(JOB), json.dumps(arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SPARK_LIMIT_S,
            check=False,
        )
        (folder / "output").write_text(self.done.stdout + self.done.stderr)

    def files_with(self, text: str, *, under: str = "") -> list[Path]:
        files = [path for path in (self.folder / under).rglob("*") if path.is_file()]
        assert files
        return [path for path in files if text.encode() in path.read_bytes()]


def check_no_secret(job: Job, workers: StandaloneCluster) -> None:
    """Plans, events, checkpoint and logs have no password."""
    assert job.files_with(QUERY, under="events")
    for secret in USERS.values():
        assert not job.files_with(secret)
        logs = [path for path in workers.directory.rglob("*") if path.is_file()]
        assert not [path for path in logs if secret.encode() in path.read_bytes()]


def values(kafka: SecuredKafka, topic: str) -> list[str]:
    return sorted(str(row.value) for row in ottla.read(topic, bootstrap=kafka.server.bootstrap, start="earliest"))


@DIFFERS.cell
@pytest.mark.parametrize("by", ["file", "env", "profile"])
def test_driver_and_executors_log_in_and_spark_writes_down_no_password(
    kafka: SecuredKafka, workers: StandaloneCluster, home: Path, tmp_path: Path, by: str
) -> None:
    topic, copy = f"rows-{by}", f"copy-{by}"
    with ottla.Admin(kafka.server.bootstrap) as admin:
        for name in (topic, copy):
            admin.topics.create(name, partitions=PARTITIONS)
    with ottla.Producer(kafka.server.bootstrap, topic=topic) as producer:
        for n in range(RECORDS):
            producer.send(f"v{n}", partition=n % PARTITIONS)
    reaches = {
        "file": login(kafka, "SASL_SSL", "SCRAM-SHA-512", file=str(home / "password")),
        "env": login(kafka, "SASL_PLAINTEXT", "PLAIN", env="EVERYWHERE"),
        "profile": {"profile": "prod"},
    }[by]
    job = Job(workers, home, tmp_path, source={**reaches, "subscribe": topic}, sink={**reaches, "topic": copy})
    assert job.done.returncode == 0, job.done.stderr[-5000:]
    assert job.done.stdout.splitlines()[-1] == str(RECORDS)
    assert values(kafka, copy) == sorted(2 * [f"v{n}" for n in range(RECORDS)]), "by the stream, and by the batch"
    assert job.files_with(topic, under="checkpoint")
    check_no_secret(job, workers)


@DIFFERS.cell
def test_a_password_that_only_the_driver_has_is_one_error(
    kafka: SecuredKafka, workers: StandaloneCluster, home: Path, tmp_path: Path
) -> None:
    topic = "driver-only"
    with ottla.Admin(kafka.server.bootstrap) as admin:
        admin.topics.create(topic, partitions=1)
    with ottla.Producer(kafka.server.bootstrap, topic=topic) as producer:
        producer.send("v")
    reaches = login(kafka, "SASL_PLAINTEXT", "PLAIN", env="ONLY_AT_THE_DRIVER")
    job = Job(workers, home, tmp_path, source={**reaches, "subscribe": topic}, sink={**reaches, "topic": topic})
    assert job.done.returncode != 0
    assert "the environment variable ONLY_AT_THE_DRIVER is not set" in job.done.stderr
    check_no_secret(job, workers)


@DIFFERS.cell
def test_a_password_as_an_option_is_refused_and_not_repeated(
    kafka: SecuredKafka, workers: StandaloneCluster, home: Path, tmp_path: Path
) -> None:
    """Spark itself has it by then. So the query fails before it has a plan."""
    plain = login(kafka, "SASL_PLAINTEXT", "PLAIN") | {"kafka.sasl.password": "a-plain-password-31"}
    job = Job(workers, home, tmp_path, source={**plain, "subscribe": "t"}, sink={**plain, "topic": "t"})
    assert job.done.returncode != 0
    assert "kafka.sasl.password can't be an option" in job.done.stderr
    assert "a-plain-password-31" not in job.done.stdout + job.done.stderr
    assert not job.files_with("a-plain-password-31")
