"""kafka-acls and kafka-configs, unchanged, against brokers with logins and an authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guarded_settings import guarded_settings
from peers.kafka.tools import run_tool
from peers.place import PeerError
from tests.compat.cells import TOOLS
from tests.fuzz.stack import Stack
from users import PASSWORDS

import ottla
from ottla import Acl, AclFilter, Resource
from ottla_cli.acl_words import ROLES

Tool = Callable[..., str]

RESOURCES = {
    "produce": (Resource.topic("orders"), Resource.transactional_id("billing"), Resource.cluster()),
    "consume": (Resource.topic("orders"), Resource.group("readers")),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guarded")
    settings = guarded_settings(folder, passwords={"alice": PASSWORDS["alice"]})
    with Stack(folder, broker=settings) as stack:
        yield f"127.0.0.1:{stack.kafka_port}"


@pytest.fixture(scope="module")
def alice(address: str) -> Iterator[ottla.Admin]:
    with ottla.Admin(address, login=ottla.Scram("alice", PASSWORDS["alice"])) as admin:
        yield admin


@pytest.fixture
def tool(alice: ottla.Admin, address: str, tmp_path: Path) -> Tool:
    """Runs a tool as alice."""
    alice.acls.delete(AclFilter())
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{PASSWORDS["alice"]}";\n'
    )

    def run(name: str, *arguments: str) -> str:
        return run_tool(name, "--bootstrap-server", address, "--command-config", str(config), *arguments)

    return run


@TOOLS.cell
@pytest.mark.parametrize(
    ("role", "options"),
    [
        ("produce", ("--producer", "--topic", "orders", "--transactional-id", "billing", "--idempotent")),
        ("consume", ("--consumer", "--topic", "orders", "--group", "readers")),
    ],
)
def test_kafka_acls_gives_what_a_producer_or_a_consumer_needs(
    tool: Tool, alice: ottla.Admin, role: str, options: tuple[str, ...]
) -> None:
    tool("kafka-acls", "--add", "--allow-principal", "User:carol", *options)
    ours = {
        Acl.allow("User:carol", operation, resource)
        for resource in RESOURCES[role]
        for operation in ROLES[role][resource.type]
    }
    assert set(alice.acls.list()) == ours, f"`ottla acl add carol {role} …` adds the same ACLs"
    tool("kafka-acls", "--remove", "--force", "--allow-principal", "User:carol", *options)
    assert alice.acls.list() == []


@TOOLS.cell
def test_kafka_acls_lists_and_removes_what_the_sdk_has_created(tool: Tool, alice: ottla.Admin) -> None:
    denied = Acl.deny("User:eve", "write", Resource.topic("orders-", prefixed=True), host="10.0.0.0/8")
    alice.acls.create(denied, Acl.allow("User:*", "read", Resource.group("*")))
    listed = tool("kafka-acls", "--list")
    assert "ResourcePattern(resourceType=TOPIC, name=orders-, patternType=PREFIXED)" in listed
    assert "(principal=User:eve, host=10.0.0.0/8, operation=WRITE, permissionType=DENY)" in listed
    assert "(principal=User:*, host=*, operation=READ, permissionType=ALLOW)" in listed
    matching = ("--topic", "orders-eu", "--resource-pattern-type", "match")
    assert "User:eve" in tool("kafka-acls", "--list", *matching)
    tool("kafka-acls", "--remove", "--force", *matching)
    assert denied not in alice.acls.list()


@TOOLS.cell
def test_kafka_configs_adds_describes_and_deletes_a_users_password(
    tool: Tool, alice: ottla.Admin, address: str
) -> None:
    of_carol = ("--entity-type", "users", "--entity-name", "carol")
    tool("kafka-configs", "--alter", *of_carol, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carols]")
    assert dict(alice.users.describe("carol")[0].iterations) == {"SCRAM-SHA-256": 8192}
    with ottla.Admin(address, login=ottla.Scram("carol", "carols", "SCRAM-SHA-256")) as carol:
        carol.topics.list()
    alice.users.set_password("carol", "another", mechanisms=["SCRAM-SHA-512"])
    described = tool("kafka-configs", "--describe", *of_carol)
    assert "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in described
    tool("kafka-configs", "--alter", *of_carol, "--delete-config", "SCRAM-SHA-256")
    assert alice.users.describe("carol")[0].mechanisms == ("SCRAM-SHA-512",)
    with pytest.raises(PeerError, match="SCRAM-SHA-256"):
        tool("kafka-configs", "--alter", *of_carol, "--delete-config", "SCRAM-SHA-256")


@TOOLS.cell
def test_kafka_configs_describes_the_settings_of_the_authorizer(tool: Tool, alice: ottla.Admin) -> None:
    broker = str(alice.cluster.describe().brokers[0].id)
    described = tool("kafka-configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", broker)
    for line in (
        "super.users=User:alice sensitive=false synonyms={STATIC_BROKER_CONFIG:super.users=User:alice}",
        "authorizer.class.name=StandardAuthorizer sensitive=false",
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512 sensitive=false",
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT sensitive=false",
    ):
        assert line in described
