"""Does what a client may want to do, as the user whose keys are in the container in which it runs.

The argument is a JSON list of tries: pairs of "read", "write" or "create" and a topic. The output is a JSON list with
what happened to each: "done", or Kafka's error code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ottla
from ottla.client.security.profiles import load_profile

PROFILES = Path("/run/ottla/clients.toml")
LIMIT_S = 20.0


def attempt(what: str, topic: str) -> str:
    config = load_profile("inside", PROFILES).config()
    bootstrap = config.pop("bootstrap.servers")
    try:
        match what:
            case "read":
                with ottla.Consumer(
                    topic, bootstrap=bootstrap, config=config, start="earliest", stop="end", value="bytes"
                ) as consumer:
                    list(consumer)
            case "write":
                with ottla.Producer(bootstrap, topic=topic, config=config, value="bytes") as producer:
                    producer.send(b"by a client").result(LIMIT_S)
            case "create":
                with ottla.Admin(bootstrap, config=config) as admin:
                    admin.topics.create(topic, partitions=1)
            case _:
                raise ValueError(what)
    except ottla.OttlaError as error:
        return ottla.ErrorCode(error.code).name
    return "done"


if __name__ == "__main__":
    print(json.dumps([attempt(what, topic) for what, topic in json.loads(sys.argv[1])]))
