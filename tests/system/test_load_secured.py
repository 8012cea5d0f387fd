"""Locust at a cluster that requires a login and TLS, as the user that it has in containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster_security import ADMIN
from loadtest.locust.headless import Plan, run_locust
from secured_cluster import secured_cluster

import ottla
from ottla_stack.container_users import LOAD, SPARK, make_users

_SCENARIOS = ("ProduceKeyed", "EndToEnd", "Transactions", "GroupChurn", "Replay")
_PASSWORD = "planted-password-of-a-load-test"
_LIMIT_S = 30.0


def passwords(folder: Path) -> Path:
    """Return a directory with the passwords, as containers get them."""
    for user in (LOAD, SPARK):
        file = folder / user / f"{user}.password"
        file.parent.mkdir(parents=True)
        file.touch(0o600)
        file.write_text(f"{_PASSWORD}\n")
    return folder


@pytest.mark.timeout(240)
def test_the_scenarios_run_by_a_profile_whose_user_may_do_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured_cluster(tmp_path / "cluster", txn_coordinators=1) as (cluster, security):
        handed_out = passwords(tmp_path / "run")
        with ottla.Admin(cluster.bootstrap, config=security.of_client(ADMIN)) as admin:
            admin.topics.create("orders", partitions=1)
            for _ in range(2):  # a second run changes nothing
                make_users(admin, handed_out)
            acls = list(admin.acls.list(ottla.AclFilter(principal=f"User:{LOAD}")))
            assert len(acls) == 5
            assert not list(admin.acls.list(ottla.AclFilter(principal=f"User:{SPARK}")))
        config = security.of_client(LOAD, password=_PASSWORD)
        profiles = tmp_path / "config.toml"
        settings = {"bootstrap.servers": cluster.bootstrap, **config}
        settings["sasl.password.file"] = str(handed_out / LOAD / f"{LOAD}.password")
        del settings["sasl.password"]
        lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
        profiles.write_text("\n".join(["[profiles.secured]", *lines]))
        monkeypatch.setenv("OTTLA_CONFIG", str(profiles))
        plan = Plan(5, len(_SCENARIOS), scenarios=_SCENARIOS, profile="secured")
        report, wrong = run_locust("", plan, tmp_path, "load")
        with (
            ottla.Producer(cluster.bootstrap, topic="orders", config=config) as producer,
            pytest.raises(ottla.AuthorizationError),
        ):
            producer.send("by the user of a load test").result(_LIMIT_S)
    assert wrong == []
    assert report["failures"] == 0
    assert sorted(report["scenarios"]) == sorted(_SCENARIOS)
    assert _PASSWORD not in (tmp_path / "load.txt").read_text()
