"""`ottla config` and `ottla cluster`, over a fake Admin."""

from __future__ import annotations

import json

import pytest
from cli_fakes import FakeAdmin, ottla

from ottla.errors import from_core
from ottla_cli.commands import cluster, config
from ottla_cli.failures import sentence
from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from ottla_core.configs.config_values import topic_key
from ottla_core.errors import OttlaError


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin(orders=[])
    for module in (config, cluster):
        monkeypatch.setattr(module, "open_admin", lambda settings: fake)
    return fake


@pytest.mark.usefixtures("admin")
def test_get_shows_what_is_set_or_what_is_named_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("config get -t orders -o name") == 0
    assert capsys.readouterr().out == "segment.ms\n"
    assert ottla("config get -t orders --all -o name") == 0
    assert capsys.readouterr().out == "retention.ms\nsegment.ms\n"
    assert ottla("config get -t orders retention.ms -o json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["items"][0]["value"], told["items"][0]["source"]) == (
        "configs/v1",
        "604800000",
        "DEFAULT_CONFIG",
    )


def test_get_names_the_nearest_and_says_when_nothing_is_set(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("config get -t orders retention.msec") == 4
    assert "did you mean retention.ms?" in capsys.readouterr().err
    admin.values = {"retention.ms": ("1", "DEFAULT_CONFIG")}
    assert ottla("config get") == 0
    assert capsys.readouterr() == ("", "the cluster sets no configs; --all also shows defaults\n")
    assert ottla("config get -t orders --broker 1") == 2


def test_set_and_unset_tell_what_became_of_each(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("config set -t orders retention.ms=1h segment.ms=2h -o jsonl") == 0
    assert admin.calls == [("set", "orders", None, {"retention.ms": "1h", "segment.ms": "2h"})]
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[0]) == {
        "name": "retention.ms",
        "action": "set",
        "before": "604800000",
        "after": "1h",
    }
    assert "orders: retention.ms 604800000 -> 1h" in printed.err
    assert ottla("config unset --broker 2 retention.ms") == 0
    assert admin.calls[-1] == ("unset", None, 2, ("retention.ms",))
    assert capsys.readouterr().err == "broker 2: retention.ms 1h -> 1\n"


def test_a_dry_run_changes_nothing(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("config set retention.ms=1h --dry-run") == 0
    assert ottla("config unset retention.ms --dry-run") == 0
    assert admin.calls == []
    assert "would change the cluster: retention.ms 604800000 -> 1h" in capsys.readouterr().err
    assert ottla("config set retention.ms") == 2
    assert ottla("config set nonsense=1") == 2


@pytest.mark.parametrize("line", ["config set topic orders retention.ms=1h", "config get topic orders"])
@pytest.mark.usefixtures("admin")
def test_a_topic_without_its_option_is_answered_with_the_option(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla(line) != 0
    assert "name a topic with -t, or a broker with --broker" in capsys.readouterr().err


def test_an_unknown_config_is_answered_with_the_command_that_lists_them() -> None:
    with pytest.raises(OttlaError) as refused:
        topic_key("zzz")
    assert sentence(from_core(refused.value)).endswith("; list all configs with `ottla config explain`")


def test_explain_needs_no_cluster_and_knows_every_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("config explain -o name") == 0
    assert set(capsys.readouterr().out.split()) == {*TOPIC_CONFIGS, *BROKER_CONFIGS, *GROUP_CONFIGS}
    assert ottla("config explain retention.ms broker.id -o table") == 0
    told = capsys.readouterr().out
    assert "retention.ms  (topic; long)" in told
    assert "Default: 604800000; -1 or more." in told
    assert "log.retention.ms, log.retention.minutes, log.retention.hours" in told
    assert "A setting of the broker's process" in told
    assert ottla("config explain retenton.ms") == 4
    assert "did you mean retention.ms" in capsys.readouterr().err


def test_explain_tells_a_program_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("config explain cleanup.policy -o json") == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["legal"] == "delete or compact"
    assert item["synonyms"] == ["log.cleanup.policy"]
    assert (item["scope"], item["type"], item["default"]) == ("topic", "list", "delete")


@pytest.mark.usefixtures("admin")
def test_cluster_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("cluster info -o json") == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["controller"] == {"id": 0, "address": "localhost:9640"}
    assert [broker["address"] for broker in item["brokers"]] == ["localhost:9650"]
    assert ottla("cluster info -o table") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cluster c1, controller 0 at localhost:9640"
    assert [line.split() for line in lines[1:]] == [["ID", "ADDRESS"], ["0", "localhost:9650"]]
