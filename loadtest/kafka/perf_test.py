"""Apache Kafka's own kafka-producer-perf-test, as its script starts it. Prints one JSON object of what it says."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from typing import Final

from peers.kafka.jars import classpath, java

LIMIT_S: Final = 120.0
_JVM: Final = ("-Xmx512M", "-Dlog4j2.level=ERROR")
_RATE: Final = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


def totals(said: str) -> dict[str, float]:
    """Its last line; those before are of a few seconds each. Raises ValueError where there is none."""
    found = list(_RATE.finditer(said))
    if not found:
        raise ValueError(f"no figures in what kafka-producer-perf-test said: {said}")
    records, records_s = found[-1].groups()
    return {"records_s": float(records_s), "records": int(records)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    given = parser.parse_args()
    command = [java(), *_JVM, "-cp", classpath(), "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--bootstrap-server", given.bootstrap, "--command-property", "acks=1", "--throughput", "-1"]
    command += ["--topic", given.topic, "--num-records", str(given.records), "--record-size", str(given.size)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True).stdout
    print(json.dumps(totals(said)))


if __name__ == "__main__":
    main()
