"""`ottla acl`, over a fake Admin: what words mean, what brokers decide, and what is warned of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import ottla, sit

from ottla.admin.acl import Acl, AclFilter, Resource, core_acl, core_filter
from ottla.admin.configs import ConfigEntry
from ottla_cli.access import NO_AUTHORIZER
from ottla_cli.commands import acl, user
from ottla_cli.completion import complete_resource

STATIC, DEFAULT = "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"
AUTHORIZER = {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": "false"}


@dataclass
class FakeAcls:
    acls: list[Acl] = field(default_factory=list)

    def list(self, matching: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008
        return [each for each in self.acls if core_filter(matching).matches(core_acl(each))]

    def create(self, *acls: Acl) -> None:
        self.acls += acls

    def delete(self, *acls: Acl) -> None:
        self.acls = [each for each in self.acls if each not in acls]


class FakeAdmin:
    """A cluster whose brokers have these settings each."""

    def __init__(self, *settings: dict[str, str], acls: Iterable[Acl] = ()) -> None:
        self.acls = FakeAcls(list(acls))
        self.settings = settings or (AUTHORIZER,)
        self.cluster = self.configs = self

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *error: object) -> None: ...

    def describe(self) -> Any:
        brokers = [SimpleNamespace(id=id_, fenced=False) for id_ in range(len(self.settings))]
        return SimpleNamespace(brokers=[*brokers, SimpleNamespace(id=99, fenced=True)])

    def get(self, *, broker: int) -> dict[str, ConfigEntry]:
        return {
            name: ConfigEntry(name, value, STATIC, "string", True, True, "")
            for name, value in self.settings[broker].items()
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*settings: dict[str, str], acls: Iterable[Acl] = ()) -> FakeAdmin:
        admin = FakeAdmin(*settings, acls=acls)
        for module in (acl, user):
            monkeypatch.setattr(module, "open_admin", lambda settings: admin)
        return admin

    return use


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("alice write orders", "'orders' is no type of resource; write one of topic, group, cluster"),
        ("alice write topics:orders", "'topics' is no type of resource; did you mean topic?"),
        ("alice write topic:", "'topic:' has no name; write topic:NAME, or topic:* for all"),
        ("alice write topic:orders-*", "is no pattern; write --prefixed topic:orders- for all that begin like this"),
        ("alice alter cluster:mine", "the cluster has no other name"),
        ("alice wirte topic:orders", "'wirte' is no operation; did you mean write?"),
        ("alice write group:g", "there is no write on group g; use one of read, delete, describe"),
        ("alice consume cluster", "consume needs no operation on the cluster; consume is for a topic and a group"),
        ("alice all topic:* --prefixed", "with --prefixed begins with a star"),
    ],
)
def test_a_word_that_means_nothing_is_an_error_with_advice(
    cluster: Any, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = cluster()
    assert ottla(f"acl add {line}") == 2
    assert words in capsys.readouterr().err
    assert not admin.acls.acls


def test_operations_and_principals_have_several_spellings(cluster: Any) -> None:
    admin = cluster()
    assert ottla("acl add '*' Describe-Configs,alter_configs topic:t --host 10.0.0.1 --host ::1") == 0
    assert ottla("acl add Role:ops all transactional-id:t") == 0
    assert {(each.principal, each.operation, each.host) for each in admin.acls.acls} == {
        *(
            ("User:*", operation, host)
            for operation in ("describe_configs", "alter_configs")
            for host in ("10.0.0.1", "::1")
        ),
        ("Role:ops", "all", "*"),
    }


def test_a_dry_run_adds_and_removes_nothing(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    admin = cluster(acls=[Acl.allow("User:a", "read", Resource.topic("t"))])
    assert ottla("acl add a write topic:t --dry-run -o json") == 0
    printed = capsys.readouterr()
    assert (printed.err, json.loads(printed.out)["items"][0]["action"]) == (
        "would add: User:a may write topic t\n",
        "none",
    )
    assert ottla("acl rm --all --dry-run") == 0
    assert len(admin.acls.acls) == 1


def test_rm_removes_what_it_has_shown_once_it_is_confirmed(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = cluster(acls=[Acl.allow("User:a", "read", Resource.topic("t"))])
    asked = sit(monkeypatch, False)
    assert ottla("acl rm --principal a") == 1
    assert (asked, len(admin.acls.acls)) == (["Remove this ACL?"], 1)
    assert "User:a may read topic t\n" in capsys.readouterr().err
    sit(monkeypatch, True)
    assert ottla("acl rm --principal a") == 0
    assert not admin.acls.acls
    assert ottla("acl rm --all --principal a") == 2


def test_brokers_with_different_settings_answer_for_themselves(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(AUTHORIZER, {**AUTHORIZER, "super.users": "User:alice"}, AUTHORIZER, {"authorizer.class.name": ""})
    assert ottla("acl test alice write topic:t -o table") == 1
    printed = capsys.readouterr()
    assert "warning: the brokers have different settings" in printed.err
    assert printed.out.splitlines() == [
        "no at broker 0, 2, because no ACL is for the resource, and allow.everyone.if.no.acl.found is false",
        "yes at broker 1, because the user is a super user",
        f"yes at broker 3, {NO_AUTHORIZER}",
    ]


def test_what_produce_and_consume_need_is_tested_one_by_one(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cluster(acls=[Acl.allow("User:a", "read", Resource.topic("t"))])
    assert ottla("acl test a consume topic:t group:g") == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["operation"], each["allowed"]) for each in found] == [
        ("read", True),
        ("describe", True),
        ("read", False),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a all topic:t", "all is no operation that a request needs"),
        ("a read topic:t --host somewhere", "--host 'somewhere' is no address"),
    ],
)
def test_a_test_needs_an_operation_and_an_address(
    cluster: Any, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster()
    assert ottla(f"acl test {line}") == 2
    assert words in capsys.readouterr().err


def test_settings_that_kafka_hides_and_other_authorizers_are_told(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster({**AUTHORIZER, "super.users": ""})
    assert ottla("acl test a read topic:t") == 1
    assert "warning: the brokers do not show super.users, which may allow more" in capsys.readouterr().err
    cluster({"authorizer.class.name": "com.example.Mine"})
    assert ottla("acl test a read topic:t") == 1
    assert "an authorizer that ottla does not know: com.example.Mine" in capsys.readouterr().err


def test_a_resource_that_is_opened_to_everyone_is_warned_of(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    t, prefix = Resource.topic("t1"), Resource.topic("t", prefixed=True)
    acls = [Acl.allow("User:a", "read", t), Acl.allow("User:a", "read", prefix)]
    cluster({**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}, acls=acls)
    assert ottla("acl rm --resource topic:t1 --dry-run") == 0
    assert "warning" not in capsys.readouterr().err, "the prefix still matches"
    assert ottla("acl rm --resource topic --dry-run") == 0
    told = capsys.readouterr().err
    assert "warning: everyone may then use topic t1" in told
    assert "warning: everyone may then use every topic that begins with t" in told


def test_a_warning_says_that_nobody_can_manage_the_cluster_any_more(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    manages = Acl.allow("User:ops", "all", Resource.cluster())
    cluster(acls=[manages])
    assert ottla("acl rm --resource cluster --dry-run") == 0
    assert "warning: after that nobody can change users and ACLs" in capsys.readouterr().err
    cluster({**AUTHORIZER, "super.users": "User:root"}, acls=[manages])
    assert ottla("acl rm --resource cluster --dry-run") == 0
    assert "warning" not in capsys.readouterr().err


def test_an_acl_of_a_newer_release_is_shown_and_decides_nothing(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(
        acls=[
            Acl("unknown", "User:a", "unknown", Resource.topic("t")),
            Acl.allow("User:a", "read", Resource.topic("t")),
        ]
    )
    assert ottla("acl test a read topic:t") == 0
    assert json.loads(capsys.readouterr().out)["decided_by"] == "acl"


def test_types_of_resources_are_completed() -> None:
    context: Any = None
    assert complete_resource(context, "t") == ["topic:", "transactional-id:"]
    assert complete_resource(context, "cluster:") == []
