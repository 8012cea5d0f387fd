"""Sends one record and ends, as a command or a scheduled job does. Prints the CPU time of the process in seconds."""

from __future__ import annotations

import argparse
import json
import time

import ottla

_WITHIN_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--topic", required=True)
    given = parser.parse_args()
    with ottla.Producer(given.bootstrap, topic=given.topic, value="bytes") as producer:
        producer.send(b"x").result(timeout=_WITHIN_S)
    print(json.dumps({"client_cpu_s": round(time.process_time(), 4)}))


if __name__ == "__main__":
    main()
