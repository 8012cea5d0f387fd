"""Change data capture: Kafka Connect reads the changes of a database's table, and `ottla.Table` has its rows in memory.

    pip install httpx
    ottla up
    bin/connect-distributed.sh connect-distributed.properties   # docs/use/connect.md
    python examples/change_data_capture.py localhost:8083 localhost:5432

The connector is Debezium's, for PostgreSQL with a table `customers`, whose key is `id`. The program prints each change.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import httpx

import ottla

TOPIC = "crm.public.customers"
CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.user": "postgres",
    "database.password": "postgres",
    "database.dbname": "postgres",
    "plugin.name": "pgoutput",
    "slot.name": "customers",
    "publication.name": "customers",
    "publication.autocreate.mode": "filtered",
    "table.include.list": "public.customers",
    "topic.prefix": "crm",
    # A record's key is the row's `id` as text; its value is the row as JSON, or nothing if the row was deleted.
    "transforms": "row,id",
    "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
    "transforms.id.field": "id",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def capture(worker: str, database: str) -> None:
    """Create the topic and the connector, and wait until the connector runs. If both exist, nothing changes."""
    with ottla.Admin() as admin:
        admin.topics.create(TOPIC, config={"cleanup.policy": "compact"}, if_exists="ok")
    host, port = database.split(":")
    config = {**CONNECTOR, "database.hostname": host, "database.port": port}
    with httpx.Client(base_url=f"http://{worker}/connectors/customers", timeout=60) as connect:
        connect.put("/config", json=config).raise_for_status()
        give_up_at = time.monotonic() + 120
        while (states := states_of(connect.get("/status"))) != {"RUNNING"}:
            if "FAILED" in states or time.monotonic() > give_up_at:
                raise RuntimeError(f"the connector does not run: {connect.get('/status').text}")
            time.sleep(0.2)


def states_of(answer: httpx.Response) -> set[str]:
    """Return the states of the connector and its tasks; none before it has tasks."""
    if answer.status_code == httpx.codes.NOT_FOUND:
        return set()
    status: dict[str, Any] = answer.raise_for_status().json()
    return {part["state"] for part in (status["connector"], *status["tasks"])} if status["tasks"] else set()


def main(worker: str, database: str) -> None:
    capture(worker, database)
    customers = ottla.Table[str, dict[str, Any]](TOPIC, key="str", value="json")
    changes = customers.watch()  # before the table starts: the rows that it finds are changes, too
    with customers:
        for change in changes:
            print(f"{change.key}: {change.old} -> {change.value}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
