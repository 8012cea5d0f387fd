"""The embedded etcd: which binary, on which data, and what it says when it can't."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from children import stop
from waiting import wait_until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.embedded_etcd import EmbeddedEtcd, etcd_version, find_etcd, has_data, is_ready, plan_etcd


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EmbeddedEtcd]:
    etcd = EmbeddedEtcd(plan_etcd(tmp_path / "etcd"))
    yield etcd
    etcd.stop()


def test_it_runs_from_start_to_stop_and_again_on_the_same_ports(etcd: EmbeddedEtcd) -> None:
    assert not has_data(etcd.plan.directory)
    etcd.start()
    assert has_data(etcd.plan.directory)
    first, endpoint = etcd.pid, etcd.endpoint
    assert first is not None
    assert is_ready(etcd.plan.health)
    etcd.stop()
    assert etcd.pid is None
    assert not is_ready(etcd.plan.health)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    etcd.start()
    assert etcd.pid not in (None, first)
    assert etcd.endpoint == endpoint


def test_a_stopped_process_is_ended_within_the_bound(etcd: EmbeddedEtcd) -> None:
    etcd.start()
    assert etcd.pid is not None
    stop(etcd.pid)
    etcd.stop(timeout_s=0.2)
    wait_until(lambda: etcd.pid is None, limit_s=1)
    assert not is_ready(etcd.plan.health)


def test_data_of_a_later_etcd_is_refused_in_words(tmp_path: Path) -> None:
    plan = plan_etcd(tmp_path / "etcd")
    replace(plan, version=(9, 1, 4)).prepare()
    with pytest.raises(OttlaError) as refused:
        plan.prepare()
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert "was written by etcd 9.1.4" in str(refused.value)
    assert "OTTLA_ETCD" in refused.value.hint
    replace(plan, version=(9, 1, 2)).prepare()  # the same minor version reads it
    replace(plan, version=(9, 2, 0)).prepare()
    assert (tmp_path / "etcd" / "etcd-version").read_text() == "9.2.0\n", "and the latest is remembered"


def test_a_port_in_use_is_told_with_etcd_s_own_words(etcd: EmbeddedEtcd) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", etcd.plan.client_port))
        taken.listen()
        with pytest.raises(OttlaError, match="address already in use") as failed:
            etcd.start(timeout_s=10)
    assert "ended instead of starting" in str(failed.value)
    assert str(etcd.plan.directory / "etcd.log") in failed.value.hint
    assert etcd.pid is None


def test_a_named_binary_wins_and_has_to_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = find_etcd()
    assert etcd_version(found) >= (3, 4, 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OTTLA_ETCD", str(found))
    assert find_etcd() == found
    monkeypatch.setenv("OTTLA_ETCD", str(tmp_path / "no-etcd"))
    with pytest.raises(OttlaError, match=r"no-etcd, which can't be run"):
        find_etcd()
    with pytest.raises(OttlaError, match="is not an etcd version"):
        etcd_version(Path("/bin/echo"))
