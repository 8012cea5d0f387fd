"""Arguments and Kafka's names for them: merged, converted, refused in words."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.admin.admin import Admin
from ottla.client.settings import (
    CONSUMER_NAMES,
    PRODUCER_NAMES,
    bootstrap_addresses,
    merge_config,
    read_properties,
)
from ottla.consumer.consumer import Consumer
from ottla.consumer.group.listener import RebalanceListener
from ottla.errors import ConfigError, ErrorCode
from ottla.fakes.scripted import ScriptedCluster
from ottla.machines.membership import MemberSettings
from ottla.producer.producer import Producer

DEFAULTS = {
    "linger": 0.005,
    "acks": "all",
    "key": "auto",
    "bootstrap": None,
    "login": None,
    "tls": None,
    "compression": None,
    "partitioner": "default",
    "enable_idempotence": None,
}


def merged(config: dict[str, Any], **given: Any) -> dict[str, Any]:
    return merge_config(PRODUCER_NAMES, {**DEFAULTS, **given}, DEFAULTS, config)


def test_kafkas_names_mean_our_arguments() -> None:
    settings = merged(
        {
            "linger.ms": "20",
            "acks": "-1",
            "compression.type": "zstd",
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "bootstrap.servers": "h:9650",
            "security.protocol": "PLAINTEXT",
            "enable.idempotence": "false",
            "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        }
    )
    assert settings.pop("partitioner") == "round_robin"
    assert settings.pop("enable_idempotence") is False
    assert (settings.pop("login"), settings.pop("tls")) == (None, None)
    assert settings == {"linger": 0.02, "acks": "all", "compression": "zstd", "key": "str", "bootstrap": "h:9650"}


@pytest.mark.feature(16, 43, 47, 48)
def test_what_is_not_given_is_as_in_kafka() -> None:
    with Producer[Any, Any]("b0:1") as producer:
        assert producer._accumulator.limits.backoff_s == 0.1
    with Consumer[Any, Any]("t", bootstrap="b0:1", group="g") as consumer:
        assert consumer._group is not None
        options = consumer._group.options
        assert (options.commit, options.auto_commit_interval_s) == ("at_least_once", 5.0)
        assert options.member == MemberSettings(45.0, 3.0, 300.0, None)
        assert (consumer.max_poll_records, consumer._fetcher._timeout) == (500, 30.0)


@pytest.mark.rule(66)
@pytest.mark.feature(21)
@pytest.mark.parametrize(
    ("settings", "idempotent"),
    [
        ({}, True),
        ({"acks": -1, "retries": 1, "max_in_flight": 5}, True),
        ({"acks": 1}, False),
        ({"acks": 0, "max_in_flight": 10}, False),
        ({"retries": 0}, False),
        ({"enable_idempotence": False, "max_in_flight": 10}, False),
        ({"config": {"enable.idempotence": "true"}}, True),
        ({"enable_idempotence": True, "acks": 1}, "=True can't be combined with acks=1"),
        ({"config": {"enable.idempotence": "true", "acks": "0"}}, "=True can't be combined with acks=0"),
        ({"enable_idempotence": True, "retries": 0}, "=True can't be combined with retries=0"),
        ({"enable_idempotence": True, "max_in_flight": 6}, "=True can't be combined with max_in_flight=6"),
        ({"max_in_flight": 6}, r"enable_idempotence=True \(the default\) can't be combined with max_in_flight=6"),
        ({"enable_idempotence": "yes"}, "enable_idempotence='yes' is not valid"),
    ],
)
def test_idempotence_is_on_unless_something_excludes_it(settings: dict[str, Any], idempotent: bool | str) -> None:
    cluster = ScriptedCluster({"t": 1})
    make: Callable[[], Producer[Any, Any]] = partial(Producer, "b0:1", _transport=cluster.connect, **settings)
    if isinstance(idempotent, str):
        with pytest.raises(ConfigError, match=idempotent) as caught:
            make()
        assert "enable_idempotence" in caught.value.hint or "use True" in caught.value.hint
        return
    with make() as producer:
        assert producer._accumulator.limits.idempotent is idempotent


@pytest.mark.feature(2)
@pytest.mark.feature(60)
def test_kafkas_own_serializers_are_known_by_their_java_names() -> None:
    java = "org.apache.kafka.common.serialization."
    for kind, name in {"Double": "float", "UUID": "uuid", "Long": "int", "Bytes": "bytes"}.items():
        assert merged({"key.serializer": f"{java}{kind}Serializer"})["key"] == name
    names = {"value.deserializer": f"{java}FloatDeserializer"}
    assert merge_config(CONSUMER_NAMES, {"value": "auto"}, {"value": "auto"}, names)["value"] == "float"
    with pytest.raises(ConfigError, match="ottla's float serializer writes 8 bytes"):
        merged({"key.serializer": f"{java}FloatSerializer"})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"linger": 5}, "closest name is linger.ms"),
        ({"quite.unknown": 5}, "names are acks"),
        ({"linger.ms": "soon"}, "linger.ms='soon' is not valid"),
        ({"enable.idempotence": "yes"}, "not valid"),
        ({"max.in.flight.requests.per.connection": 0}, "at least 1"),
        ({"key.serializer": "com.acme.OrderSerializer"}, "not valid"),
        ({"partitioner.class": "com.acme.Mine"}, "pass a callable as partitioner="),
    ],
)
def test_what_can_not_be_is_refused_in_words(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        merged(config)
    assert words in str(caught.value)


def test_the_same_setting_given_twice_must_agree() -> None:
    with pytest.raises(ConfigError, match=r"linger=0.1 and config linger.ms=5 contradict"):
        merged({"linger.ms": 5}, linger=0.1)
    assert merged({"linger.ms": 100}, linger=0.1)["linger"] == 0.1


def test_bootstrap_is_given_or_from_the_environment_or_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    assert bootstrap_addresses(None) == ["localhost:9092"]
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "a:1, b:2")
    assert bootstrap_addresses(None) == ["a:1", "b:2"]
    assert bootstrap_addresses(["c:3", "[::1]:4"]) == ["c:3", "[::1]:4"]
    for wrong in ("nowhere", "http://a:1", "a:0", "a:99999", ":5", ","):
        with pytest.raises(ConfigError, match="bootstrap"):
            bootstrap_addresses(wrong)


def test_a_properties_file_makes_a_client(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# Kafka's\nbootstrap.servers=b0:1\n\nacks = 1\nlinger.ms=1\nclient.id=mine\n")
    cluster = ScriptedCluster({"t": 1})
    with Producer[Any, Any].from_properties(path, topic="t", _transport=cluster.connect) as producer:
        assert producer.client_id == "mine"
        assert producer.send(b"x").result(5).offset == 0
    for wrong in ("no equals sign\n", "acks=\\\n  1\n"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="line 1"):
            read_properties(path)
    with pytest.raises(ConfigError, match="can't be read"):
        read_properties(tmp_path / "none")


@pytest.mark.story("escapes-of-properties")
def test_a_properties_file_has_javas_escapes(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("sasl.password=a\\\\b\\=c\\!\\u00e9\\t=\nssl.ca.location=C\\:\\\\ca.pem\n")
    assert read_properties(path) == {"sasl.password": "a\\b=c!é\t=", "ssl.ca.location": "C:\\ca.pem"}


@pytest.mark.feature(7)
@pytest.mark.parametrize("acks", [2, "1", True, None, -2])
def test_acks_that_do_not_exist_are_refused_with_those_that_do(acks: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Producer("b0:1", acks=acks)
    assert caught.value.code == ErrorCode.INVALID_REQUIRED_ACKS
    assert "'all'" in caught.value.hint


@pytest.mark.feature(13)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"delivery_timeout": 1}, "less than linger [+] request_timeout"),
        ({"compression": "brotli"}, "'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        ({"max_request_size": "17MiB"}, "1 byte to 16 MiB"),
        ({"buffer_memory": 1000}, "buffer_memory=1000 is less than batch_size=65536"),
        ({"config": {"buffer.memory": 99, "batch.size": 100}}, "buffer_memory=99 is less than batch_size=100"),
        ({"max_in_flight": 0}, "max_in_flight=0"),
        ({"retries": -1}, "retries=-1"),
        ({"topic": "a/b"}, "a/b"),
        ({"value": "avro"}, "value='avro'"),
        ({"partitioner": "sticky"}, "'default', 'round_robin', 'random', or a callable"),
    ],
)
def test_a_producer_refuses_what_can_not_be(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Producer("b0:1", **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"group": ""}, "group='' is not a group id"),
        ({"group": "g", "partitions": [0]}, "group= and partitions= can't be combined"),
        ({"group": "g", "start": "earliest"}, "a group continues where it left off.*auto_offset_reset= sets"),
        ({"group": "g", "pattern": "t.*"}, "topics and pattern= can't be combined"),
        ({"pattern": "t.*"}, "pattern= needs a group"),
        ({"group_instance_id": "one"}, "group_instance_id= needs a group"),
        ({"on_revoked": print}, "on_revoked= needs a group"),
        ({"group": "g", "commit": "always"}, "'at_least_once', 'at_most_once', 'manual'"),
        ({"group": "g", "assignors": "fair"}, "'range', 'roundrobin', 'sticky', 'cooperative-sticky'"),
        ({"group": "g", "assignors": []}, "pass at least one"),
        ({"group": "g", "assignors": ["range", "range"]}, "none more than once"),
        ({"group": "g", "heartbeat_interval": 45}, "is not between 0 and session_timeout=45 s.*a third"),
        ({"group": "g", "max_poll_interval": 0}, "max_poll_interval=0"),
        ({"group": "g", "group_instance_id": ""}, "group_instance_id='' is not a name"),
        ({"group": "g", "on_assigned": 3}, "on_assigned=3 is not callable"),
        ({"config": {"group.id": "g", "partition.assignment.strategy": "com.example.Mine"}}, "strategy"),
        ({"start": "beginning"}, "'committed', 'earliest', 'latest'"),
        ({"stop": "end"}, "without start= reads nothing"),
        ({"stop": "never"}, "number of records"),
        ({"auto_offset_reset": "error"}, "'earliest', 'latest', 'none'"),
        ({"partitions": [-1]}, "partitions= contains -1"),
        ({"partitions": [("other", 0)]}, "other"),
        ({"start": {("t", 0): -5}}, "-5"),
        ({"on_bad_record": "ignore"}, "on_bad_record"),
        ({"max_poll_records": 0}, "max_poll_records=0"),
        ({"config": {"isolation.level": "serializable"}}, "use one of 'read_committed', 'read_uncommitted'"),
    ],
)
def test_a_consumer_refuses_what_can_not_be(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Consumer("t", bootstrap="b0:1", **arguments)
    with pytest.raises(ConfigError, match="no topic"):
        Consumer(bootstrap="b0:1")


async def _coroutine(partitions: object) -> None: ...


@pytest.mark.feature(71)
def test_a_members_settings_under_kafkas_names() -> None:
    config = {
        "group.id": "g",
        "group.instance.id": "one",
        "enable.auto.commit": "false",
        "auto.commit.interval.ms": "1000",
        "session.timeout.ms": "9000",
        "heartbeat.interval.ms": "2000",
        "max.poll.interval.ms": "60000",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, roundrobin",
    }
    with Consumer("t", bootstrap="b0:1", config=config) as consumer:
        assert consumer._group is not None
        options = consumer._group.options
    assert (options.group, options.commit, options.auto_commit_interval_s) == ("g", "manual", 1.0)
    assert options.member == MemberSettings(9.0, 2.0, 60.0, "one")
    assert [assignor.name for assignor in options.assignors] == ["cooperative-sticky", "roundrobin"]
    assert not options.cooperative
    for strategy in ("StickyAssignor", "RangeAssignor", "RoundRobinAssignor"):
        Consumer("t", bootstrap="b0:1", group="g", config={"partition.assignment.strategy": f"o.a.{strategy}"}).close()


def test_a_listener_is_one_object_or_callables_and_never_a_coroutine() -> None:
    with pytest.raises(ConfigError, match="can't be combined"):
        Consumer("t", group="g", listener=RebalanceListener(), on_lost=print)
    with pytest.raises(ConfigError, match="on_revoked is a coroutine function"):
        Consumer("t", group="g", on_revoked=_coroutine)
    with pytest.raises(ConfigError, match="not a regular expression"):
        Consumer(group="g", pattern="(")
    with pytest.raises(ConfigError, match="no topic"):
        Consumer(group="g")


@pytest.mark.parametrize(
    ("client", "name", "words"),
    [
        (Producer, "bootstrap_servers", "Producer() has no argument 'bootstrap_servers'; use bootstrap= instead"),
        (Consumer, "brokers", "Consumer() has no argument 'brokers'; use bootstrap= instead"),
        (Consumer, "group_id", "Consumer() has no argument 'group_id'; use group= instead"),
        (Admin, "client_ids", "Admin() has no argument 'client_ids'; did you mean client_id?"),
        (Producer, "sasl_plain", "pass settings with Kafka's names in config={…}"),
    ],
)
def test_the_arguments_of_other_clients_are_named_as_they_are_here(client: Any, name: str, words: str) -> None:
    with pytest.raises(TypeError) as raised:
        client(**{name: "x"})
    assert words in str(raised.value)


def test_a_mapping_of_settings_is_no_bootstrap() -> None:
    settings: Any = {"bootstrap.servers": "b0:1"}
    with pytest.raises(ConfigError, match=r"bootstrap is a mapping .* in config="):
        Producer(settings)
