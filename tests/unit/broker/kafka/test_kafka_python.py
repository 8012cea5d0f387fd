"""What of kafka-python a broker loads."""

import subprocess
import sys

import pytest

BROKER = "import sys, ottla_broker.kafka.dispatch; print([m for m in ('kafka.admin', 'kafka.net') if m in sys.modules])"
CLIENT = "import kafka; from kafka.protocol import admin; print(kafka.KafkaProducer.__name__, admin.__name__)"


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (BROKER, "[]"),
        (f"{BROKER}; {CLIENT}", "[]\nKafkaProducer kafka.protocol.admin"),
        (f"{CLIENT}; {BROKER}", "KafkaProducer kafka.protocol.admin\n['kafka.admin', 'kafka.net']"),
    ],
    ids=["the protocol alone", "a client beside it", "a client before it"],
)
def test_a_broker_loads_the_messages_and_no_client(lines: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == (printed, "")
