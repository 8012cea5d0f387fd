"""The audit of replicas on disk: equal logs pass, and every way to differ is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs import fill, open_log
from tests.faults.audit import AuditResult, compare_replicas

from ottla_broker.storage.log import Log

NAME = f"{'ab' * 16}-0"


def replica(tmp_path: Path, broker: int) -> Log:
    (tmp_path / f"broker-{broker}").mkdir()
    return open_log(tmp_path / f"broker-{broker}" / NAME)


@pytest.fixture
def replicas(tmp_path: Path) -> list[Log]:
    """Three logs of several segments each, equal."""
    logs = [replica(tmp_path, broker) for broker in range(3)]
    for log in logs:
        fill(log, 10)
        fill(log, 10, leader_epoch=2)
    return logs


def audit(logs: list[Log]) -> AuditResult:
    data_dirs = [Path(log.directory).parent for log in logs]
    for log in logs:
        log.close(0)
    return compare_replicas(data_dirs, factor=3)


def test_equal_replicas_are_equal(replicas: list[Log]) -> None:
    result = audit(replicas)
    assert result.equal
    assert (result.partitions, result.batches) == (1, 20)


def test_nothing_to_compare_is_not_equal(tmp_path: Path) -> None:
    (tmp_path / "broker-0").mkdir()
    assert not compare_replicas([tmp_path / "broker-0"], factor=3).equal


def test_a_shorter_replica_differs(replicas: list[Log]) -> None:
    for log in replicas[:2]:
        fill(log, 1, leader_epoch=2)
    result = audit(replicas)
    assert "broker-2: ends" in result.differences[0]


def test_another_batch_or_epoch_differs(replicas: list[Log]) -> None:
    for number, log in enumerate(replicas):
        fill(log, 1, leader_epoch=3 + number // 2)
    assert "leader_epoch=4" in audit(replicas).differences[0]


def test_a_replica_that_is_missing_differs(replicas: list[Log]) -> None:
    assert "is on 2 brokers" in audit(replicas[:2]).differences[0]


@pytest.mark.parametrize("at", [9, 11, 16, 20, 70, -1], ids=["size", "size, too", "magic", "CRC", "record", "last"])
def test_a_flipped_byte_differs(replicas: list[Log], at: int) -> None:
    path = min(Path(replicas[1].directory).glob("*.log"))
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)
    (difference,) = audit(replicas).differences
    assert "no sound batch at byte " in difference
    assert ("at byte 0 " in difference) == (at >= 0)


@pytest.mark.parametrize("cut", [1, 60, 61])
def test_a_file_that_ends_within_a_batch_differs(replicas: list[Log], cut: int) -> None:
    path = max(Path(replicas[1].directory).glob("*.log"))
    path.write_bytes(path.read_bytes()[:-cut])
    assert "no sound batch at byte " in audit(replicas).differences[0]
