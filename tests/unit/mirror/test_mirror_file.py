"""The file that says what is copied: TOML, and MirrorMaker 2's properties."""

from pathlib import Path

import pytest

import ottla
from ottla.connect import PLAINTEXT
from ottla_core.errors import OttlaError
from ottla_core.security.secret import Secret
from ottla_mirror.clusters.access import Access
from ottla_mirror.machines.flows import EXCLUDED_TOPICS, ClusterSettings, FlowSettings
from ottla_mirror.mirror_file import load

CLUSTERS = (ClusterSettings("east", ("e1:9650", "e2:9650")), ClusterSettings("west", ("w1:9650",)))

TOML = """
[clusters]
east = "e1:9650, e2:9650"
west = "w1:9650"

[[flows]]
source = "east"
target = "west"
topics = ["orders.*"]
delivery = "exactly_once"
"""

MM2 = """
# as MirrorMaker 2 has it
clusters = east, west
east.bootstrap.servers = e1:9650,e2:9650
west.bootstrap.servers = w1:9650
replication.factor = 2
exactly.once.source.support = enabled

east->west.enabled = true
east->west.topics = orders.*, flights
west->east.enabled = false
west->east.topics = .*
tasks.max = 8
"""


def write(folder: Path, text: str, name: str = "mirror.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_toml(tmp_path: Path) -> None:
    settings = load(write(tmp_path, TOML))
    assert settings.clusters == CLUSTERS
    assert settings.flows == (FlowSettings("east", "west", topics=("orders.*",), delivery="exactly_once"),)
    assert settings.flows[0].exclude == EXCLUDED_TOPICS


def test_a_file_that_names_another_kafka_as_such_is_taken_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = TOML.replace("e1:9650, e2:9650", "kafka://e1:9650, kafka://e2:9650")
    assert load(write(tmp_path, text)).clusters == CLUSTERS
    (warning,) = caplog.messages
    assert warning.startswith("east: kafka:// has no meaning any more")
    mm2 = MM2.replace("e1:9650,e2:9650", "kafka://e1:9650,kafka://e2:9650")
    assert load(write(tmp_path, mm2, "mm2.properties")).clusters == CLUSTERS


def test_mirrormaker_2_s_names(tmp_path: Path) -> None:
    settings = load(write(tmp_path, MM2, "mm2.properties"))
    assert settings.clusters == CLUSTERS
    topics = ("orders.*", "flights")
    assert settings.flows == (FlowSettings("east", "west", topics=topics, replicas=2, delivery="exactly_once"),)


def test_a_flow_s_own_setting_counts_more_than_the_common_one(tmp_path: Path) -> None:
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    text = MM2 + policy + "east->west.replication.factor = 3\n"
    (flow,) = load(write(tmp_path, text, "mm2.properties")).flows
    assert (flow.replicas, flow.policy) == (3, "identity")


def test_acls_are_copied_where_the_file_says_so(tmp_path: Path) -> None:
    assert not load(write(tmp_path, TOML)).flows[0].sync_acls
    (flow,) = load(write(tmp_path, TOML + "sync_acls = true\nsync_acls_interval_s = 60")).flows
    assert (flow.sync_acls, flow.sync_acls_interval_s) == (True, 60)
    assert not load(write(tmp_path, MM2, "mm2.properties")).flows[0].sync_acls
    text = MM2 + "sync.topic.acls.enabled = true\neast->west.sync.topic.acls.interval.seconds = 60\n"
    (flow,) = load(write(tmp_path, text, "mm2.properties")).flows
    assert (flow.sync_acls, flow.sync_acls_interval_s) == (True, 60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[clusters", "not TOML"),
        ("[cluster]\n" + TOML, "did you mean 'clusters'"),
        (TOML + 'polcy = "identity"', "did you mean 'policy'"),
        ("redis = 6379\n" + TOML, "give a URL"),
        (TOML + 'policy = "mirror"', "use one of prefix, identity"),
        (TOML + 'replicas = "two"', "give a number"),
        (TOML + 'sync_acls = "yes"', "give a true or false"),
        (TOML + 'sync_acls_interval_s = "60"', "give a number"),
        (TOML + "sync_acls_interval_s = 0", "ACLs can't be compared every 0 s"),
        (TOML.replace('["orders.*"]', '"orders.*"'), 'list, such as ["orders.*"]'),
        (TOML.replace('target = "west"', ""), "no target"),
        (TOML.replace('target = "west"', 'target = "moon"'), "no cluster 'moon'"),
        (TOML + "[kafka.east]\nacks = 1", "write a table for each cluster, such as [clusters.east]"),
    ],
)
def test_mistakes_are_named_with_what_to_do(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(OttlaError) as raised:
        load(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MM2 + "east.acks = 1", "east: the setting 'acks' is unknown"),
        (MM2 + "east.sasl.jaas.config = x", "east: sasl.jaas.config can't be set: set sasl.username and sasl.password"),
        (MM2.replace("west.bootstrap.servers = w1:9650", ""), "west: bootstrap.servers is missing"),
        (MM2 + "east->west.topic = x", "did you mean 'topics'"),
        (MM2 + "replication.factr = 1", "did you mean 'replication.factor'"),
        (MM2.replace("enabled = true", "enabled = false"), "there is no flow"),
        (MM2 + "replication.factor = two", "replication.factor"),
    ],
)
def test_mistakes_in_mirrormaker_2_s_form(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OttlaError) as raised:
        load(write(tmp_path, text, "mm2.properties"))
    assert words in str(raised.value)


@pytest.mark.parametrize("redis", ["redis://r", "rediss://user:secret@r.example:6380/3", "redis://[::1]:6379/0"])
def test_a_redis_database_is_named_by_its_url(tmp_path: Path, redis: str) -> None:
    assert load(write(tmp_path, f'redis = "{redis}"\n' + TOML)).redis == Secret(redis)
    assert load(write(tmp_path, MM2 + f"redis.url = {redis}", "mm2.properties")).redis == Secret(redis)


def test_there_is_no_redis_unless_it_is_named(tmp_path: Path) -> None:
    assert load(write(tmp_path, TOML)).redis == Secret("")


@pytest.mark.parametrize("redis", ["r:6379", "http://r:6379", "redis://r:port", "redis://r/zero", "redis://:secret@"])
def test_what_is_no_url_of_a_redis_database_is_not_taken_and_no_password_is_repeated(
    tmp_path: Path, redis: str
) -> None:
    with pytest.raises(OttlaError, match=r"not the URL of a Redis database .* such as redis = ") as raised:
        load(write(tmp_path, f'redis = "{redis}"\n' + TOML))
    assert "secret" not in str(raised.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(OttlaError, match=r"nowhere\.toml can't be read"):
        load("nowhere.toml")


# ---- logins and TLS --------------------------------------------------------------------------------------------------

PASSWORD = "open-sesame-17"
SECURED = """
[clusters.east]
bootstrap.servers = "e1:9093, e2:9093"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "alice"
sasl.password.file = "password"
[clusters.west]
bootstrap.servers = "w1:9093"
[[flows]]
source = "east"
target = "west"
"""
SECURED_MM2 = MM2 + "\n".join(
    f"east.{name} = {value}"
    for name, value in {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password.file": "password",
    }.items()
)


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text(PASSWORD)
    return file


@pytest.mark.parametrize(("text", "name"), [(SECURED, "mirror.toml"), (SECURED_MM2, "mm2.properties")])
@pytest.mark.usefixtures("password")
def test_a_cluster_may_have_a_login(tmp_path: Path, text: str, name: str) -> None:
    settings = load(write(tmp_path, text, name))
    access = Access.of(settings.cluster("east"))
    assert access.security.login == ottla.Scram("alice", PASSWORD)
    assert access.arguments()["login"] == access.security.login
    assert Access.of(settings.cluster("west")).security == PLAINTEXT
    assert PASSWORD not in f"{settings!r}{access!r}"


def test_a_password_in_the_file_is_hidden_and_the_file_had_better_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, SECURED.replace("sasl.password.file = ", f'sasl.password = "{PASSWORD}" #'))
    path.chmod(0o644)
    settings = load(path)
    assert Access.of(settings.cluster("east")).security.login == ottla.Scram("alice", PASSWORD)
    assert PASSWORD not in f"{settings!r}{caplog.text}"
    assert "mirror.toml has a password, and other users can read it" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('file = "password"', 'file = "missing"', "missing can't be read: No such file"),
        ("sasl.password.file", "sasl.password.env", "the environment variable password is not set"),
        ("sasl.password.file", "sasl.password.command", "the setting 'sasl.password.command' is unknown"),
        ("sasl.password.file", "sasl.pasword.file", "the closest name is sasl.password.file"),
        ('"SASL_PLAINTEXT"', '"SSL"', "config sasl.mechanism and security.protocol=SSL contradict each other"),
        ('"SCRAM-SHA-512"', '"OAUTHBEARER"', "OAUTHBEARER needs a function"),
        ('"SASL_PLAINTEXT"', '"SASL_SSL"\nssl.truststore.location = "ca.pem"', "ca.pem can't be read"),
        ('bootstrap.servers = "e1:9093, e2:9093"', "", "bootstrap.servers is missing"),
        ('sasl.username = "alice"', f"sasl.password = '{PASSWORD}'", "is not TOML"),
    ],
)
@pytest.mark.usefixtures("password")
def test_a_wrong_login_is_found_before_anything_runs(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = write(tmp_path, SECURED.replace(old, new))
    with pytest.raises(OttlaError) as raised:
        load(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_line_that_makes_no_sense_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(OttlaError, match=r"line 14 is not of the form name=value") as raised:
        load(write(tmp_path, f"{MM2}east.sasl.password {PASSWORD}", "mm2.properties"))
    assert PASSWORD not in str(raised.value)
