"""Locust at a cluster that requires a login and TLS, which it has from a profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster_security import PASSWORD
from loadtest.locust.headless import Plan, run_locust
from secured_cluster import secured_cluster

_SCENARIOS = ("ProduceKeyed", "EndToEnd", "Transactions", "GroupChurn", "Replay")


@pytest.mark.timeout(240)
def test_the_scenarios_run_by_a_profile_and_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with secured_cluster(tmp_path / "cluster", txn_coordinators=1) as (cluster, security):
        profiles = tmp_path / "config.toml"
        settings = security.with_a_file(cluster.bootstrap)
        lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
        profiles.write_text("\n".join(["[profiles.secured]", *lines]))
        monkeypatch.setenv("OTTLA_CONFIG", str(profiles))
        plan = Plan(5, len(_SCENARIOS), scenarios=_SCENARIOS, profile="secured")
        report, wrong = run_locust("", plan, tmp_path, "load")
    assert wrong == []
    assert report["failures"] == 0
    assert sorted(report["scenarios"]) == sorted(_SCENARIOS)
    assert PASSWORD not in (tmp_path / "load.txt").read_text()
