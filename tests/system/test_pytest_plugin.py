"""The fixtures that applications get, used as an application's tests would use them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from waiting import LIMIT_S

from ottla.testing import Cluster


def test_what_is_produced_is_consumed(ottla_producer: Any, ottla_consumer: Any, ottla_topic: str) -> None:
    ottla_producer.send({"id": 1}, key="eu").result()
    record = next(iter(ottla_consumer))
    assert (record.topic, record.key, record.value) == (ottla_topic, "eu", {"id": 1})


def test_topics_are_one_per_test_and_start_empty(ottla_cluster: Cluster, ottla_topic: str) -> None:
    assert ottla_cluster.read(ottla_topic) == []
    ottla_cluster.produce(ottla_topic, [{"id": n} for n in range(3)])
    assert [record.value["id"] for record in ottla_cluster.read(ottla_topic)] == [0, 1, 2]


APPLICATION = """
    import ottla, pytest

    def bill(bootstrap, source, target):
        "The application under test: reads orders, writes bills."
        with ottla.Consumer(source, bootstrap=bootstrap, start="earliest", stop="end") as orders:
            with ottla.Producer(bootstrap, topic=target) as bills:
                for order in orders:
                    if order.value["total"] < 0:
                        raise ValueError(f"order {order.value['id']} is negative")
                    bills.send({"id": order.value["id"], "due": order.value["total"] * 1.19}, key=order.key)

    @pytest.fixture
    def out(ottla_cluster, ottla_topic):
        name = ottla_topic + "-out"
        ottla.Admin(ottla_cluster.bootstrap).topics.create(name, partitions=3)
        return name

    @pytest.mark.parametrize("count", [0, 1, 2, 10, 100, 500, 1000])
    def test_every_order_is_billed_once(ottla_cluster, ottla_topic, out, count):
        ottla_cluster.produce(ottla_topic, [{"id": n, "total": 100} for n in range(count)])
        bill(ottla_cluster.bootstrap, ottla_topic, out)
        assert sorted(r.value["id"] for r in ottla_cluster.read(out)) == list(range(count))

    def test_a_negative_order_stops_the_run(ottla_cluster, ottla_topic, out):
        ottla_cluster.produce(ottla_topic, [{"id": 1, "total": -1}])
        with pytest.raises(ValueError, match="order 1 is negative"):
            bill(ottla_cluster.bootstrap, ottla_topic, out)

    def test_the_tax_is_added(ottla_cluster, ottla_topic, out):
        ottla_cluster.produce(ottla_topic, [{"id": 1, "total": 100}])
        bill(ottla_cluster.bootstrap, ottla_topic, out)
        assert ottla_cluster.read(out)[0].value["due"] == pytest.approx(119)

    def test_a_broker_that_stumbles_is_no_matter(ottla_cluster, ottla_topic, out):
        ottla_cluster.produce(ottla_topic, [{"id": 1, "total": 100}])
        met = ottla_cluster.faults.error("Produce", ottla.ErrorCode.NOT_LEADER_OR_FOLLOWER).times(2)
        bill(ottla_cluster.bootstrap, ottla_topic, out)
        assert met.met == 2 and len(ottla_cluster.read(out)) == 1
"""


def run_application(folder: Path, *, without: str = "") -> str:
    """Run the application's tests in a Python without that module, and return what pytest says."""
    (folder / "test_application.py").write_text(textwrap.dedent(APPLICATION))
    if without:
        (folder / "conftest.py").write_text(f"import sys\nsys.modules[{without!r}] = None\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
    return done.stdout + done.stderr


def test_an_applications_ten_tests_run_with_nothing_but_the_fixtures(tmp_path: Path) -> None:
    said = run_application(tmp_path)
    assert "10 passed" in said, said


def test_services_run_without_uvloop(tmp_path: Path) -> None:
    said = run_application(tmp_path, without="uvloop")
    assert "10 passed" in said, said


def test_a_fixture_without_the_server_says_what_to_install(tmp_path: Path) -> None:
    said = run_application(tmp_path, without="grpc")
    assert "10 errors" in said, said
    assert "ImportError: ottla.testing.Cluster needs the server: pip install 'ottla[server]'" in said
