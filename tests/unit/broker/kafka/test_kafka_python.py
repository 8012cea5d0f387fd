"""What of kafka-python a broker loads."""

import subprocess
import sys

import pytest

BROKER = "import sys, ottla_broker.kafka.dispatch; print([m for m in ('kafka.admin', 'kafka.net') if m in sys.modules])"
CLIENTS = {
    "by its names": "from kafka import KafkaProducer; print(KafkaProducer.__module__)",
    "by its modules": "import kafka.errors, kafka.protocol.admin; print(kafka.errors, kafka.protocol.admin)",
    "as a whole": "import kafka; print(kafka.KafkaConsumer.__module__, kafka.errors.__name__, hasattr(kafka, 'no'))",
    "by a module of a client": "import kafka.producer.kafka; print(kafka.producer.kafka.KafkaProducer.__module__)",
    "all that it has": "from kafka import *; print(KafkaAdminClient.__module__)",
}


def printed_by(lines: str) -> str:
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_broker_loads_the_messages_and_no_client() -> None:
    assert printed_by(BROKER) == "[]\n"


@pytest.mark.story("test-run-ended-by-a-warning")
def test_a_test_run_that_takes_warnings_for_errors_imports_a_cluster() -> None:
    lines = (
        "import warnings; warnings.simplefilter('error'); from ottla.testing import Cluster; print(Cluster.__name__)"
    )
    assert printed_by(lines) == "Cluster\n"


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_client_in_the_process_of_a_broker_finds_all_that_it_imports(client: str) -> None:
    alone = printed_by(client)
    assert printed_by(f"{BROKER}\n{client}") == f"[]\n{alone}"
    assert printed_by(f"{client}\n{BROKER}") == f"{alone}['kafka.admin', 'kafka.net']\n"


def test_threads_that_ask_at_the_same_time_get_the_whole_of_it() -> None:
    lines = f"""
import threading
{BROKER}
together, found = threading.Barrier(8), []
def asking():
    import kafka
    together.wait()
    found.append(kafka.KafkaProducer.__name__)
threads = [threading.Thread(target=asking) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(set(found), len(found))
"""
    assert printed_by(lines) == "[]\n{'KafkaProducer'} 8\n"
