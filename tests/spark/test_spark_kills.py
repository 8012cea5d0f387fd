"""A worker is killed while it writes, the driver between writing and its log, and all of Spark after it.

`make faults-spark` has ten times as many, over every step, with those of services, and faults planted in the sink that
it has to find.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.spark.run import SparkRun
from tests.faults.spark.schedule import PYTHON, TREE, Kill, Life

from ottla.testing import Cluster


def test_no_row_is_missing_whoever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    kills = [Kill("writing", PYTHON), Kill("committed", TREE)]
    result = SparkRun(cluster.bootstrap, tmp_path / "run", "kills", seed=1).run([Life(kills)])
    assert result.failures == []
    assert result.kills == kills
    assert result.findings.clean
    assert result.findings.rows > 0
    assert result.findings.repeated > 0, "what was written before a kill comes again"


def test_each_row_is_there_once_whenever_the_driver_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Between preparing and deciding, deciding and ending, ending and forgetting, and before Spark's own log has it."""
    kills = [*(Kill(step, PYTHON) for step in ("prepare", "decide", "forget")), Kill("end", TREE)]
    run = SparkRun(cluster.bootstrap, tmp_path / "run", "eos-kills", seed=1, options={"delivery": "exactly_once"})
    result = run.run([Life([*kills])])
    assert result.failures == []
    assert list(result.kills) == kills
    assert result.findings.clean
    assert result.findings.rows > 0
    assert result.findings.repeated == 0
