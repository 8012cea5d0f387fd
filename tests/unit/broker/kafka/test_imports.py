"""What a broker loads."""

from __future__ import annotations

import subprocess
import sys


def printed_by(lines: str) -> str:
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_broker_loads_nothing_of_kafka_python() -> None:
    lines = "import sys, ottla_broker.kafka.dispatch; print([m for m in sys.modules if m.partition('.')[0] == 'kafka'])"
    assert printed_by(lines) == "[]\n"


def test_a_broker_compiles_no_message_before_one_comes() -> None:
    lines = (
        "import ottla_broker.kafka.dispatch; from ottla_core.kafka.schema import schema_of; "
        "print(schema_of.cache_info().misses)"
    )
    assert printed_by(lines) == "0\n"


def test_a_test_run_that_takes_warnings_for_errors_imports_a_cluster() -> None:
    lines = (
        "import warnings; warnings.simplefilter('error'); from ottla.testing import Cluster; print(Cluster.__name__)"
    )
    assert printed_by(lines) == "Cluster\n"
