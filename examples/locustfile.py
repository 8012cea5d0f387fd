"""A load test with Locust: users send batches of orders and wait for acknowledgements; others read them as a group.

    pip install locust
    ottla up
    locust -f examples/locustfile.py -H localhost:9092 --headless -u 20 -t 1m

A request of Locust's statistics is a batch. `loadtest/locust` has more scenarios, and checks what their users find.
"""

from __future__ import annotations

import time
from typing import Any

from locust import User, constant_throughput, events, task

import ottla

TOPIC, BATCH = "load-test-orders", 100


@events.test_start.add_listener
def create_topic(environment: Any, **_: Any) -> None:
    with ottla.Admin(environment.host) as admin:
        admin.topics.create(TOPIC, partitions=6, if_exists="ok")


class OttlaUser(User):
    abstract = True

    def report(self, name: str, took_s: float, error: ottla.OttlaError | None = None) -> None:
        """Count a batch in Locust's statistics, as a failure if there is an error."""
        self.environment.events.request.fire(
            request_type="ottla", name=name, response_time=took_s * 1000, response_length=0, exception=error
        )


class Shop(OttlaUser):
    """Sends ten batches a second, unless the cluster takes longer to acknowledge them."""

    weight = 3
    wait_time = constant_throughput(10)

    def on_start(self) -> None:
        self.producer = ottla.Producer(self.host, topic=TOPIC)

    @task
    def send(self) -> None:
        began_at = time.monotonic()
        try:
            for number in range(BATCH):
                self.producer.send({"id": number, "total": 9.5}, key=str(number))
            self.producer.flush()
        except ottla.OttlaError as error:
            self.report("send", time.monotonic() - began_at, error)
        else:
            self.report("send", time.monotonic() - began_at)

    def on_stop(self) -> None:
        self.producer.close()


class Billing(OttlaUser):
    """A member of a group. The time that counts for a batch is the age of its first order."""

    def on_start(self) -> None:
        self.consumer = ottla.Consumer(
            TOPIC, bootstrap=self.host, group="billing", auto_offset_reset="earliest", auto_commit_interval=1.0
        )

    @task
    def read(self) -> None:
        try:
            batch = self.consumer.poll(timeout=1.0, max_records=BATCH)
        except ottla.OttlaError as error:
            self.report("read", 0, error)
        else:
            if batch:
                self.report("read", time.time() - batch[0].timestamp / 1000)

    def on_stop(self) -> None:
        self.consumer.close()
