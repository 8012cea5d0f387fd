"""The configs of Apache Kafka 4.4 that have no effect in ottla, but are accepted, checked, stored and described.

Programs that set up a cluster for Kafka set these configs, too, and must not fail here. Names, types, defaults and
legal values are Kafka's. One line is one config:

    name  type  default  legal values  where it may be changed

`-` stands for null, or for values without a bound; `''` for the empty text. Legal values are a range, texts with `|`
between them, or `~` and a pattern. Where it may be changed: `static` in the settings of the broker's process alone,
`cluster` and `broker` the cluster as a whole or one broker, `listener` one listener of a broker, under a prefix
(`of_listener`).
"""
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla_core.configs.config_key import ConfigKey, ConfigType, Scope

_DOC: Final = "A setting of Kafka's for a feature that ottla does not have."

_BROKER: Final = """
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. static
add.partitions.to.txn.retry.backoff.ms int 20 1.. static
alter.config.policy.class.name class - - static
alter.log.dirs.replication.quota.window.num int 11 1.. static
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. static
authorizer.class.name string '' - static
background.threads int 10 1.. cluster
broker.heartbeat.interval.ms int 2000 - static
broker.session.timeout.ms int 9000 - static
client.quota.callback.class class - - static
config.providers list '' - cluster
connection.failed.authentication.delay.ms int 100 0.. static
connections.max.reauth.ms long 0 - static
controller.listener.names list - - static
controller.quorum.append.linger.ms int 25 0.. static
controller.quorum.auto.join.enable boolean false - static
controller.quorum.bootstrap.servers list '' - static
controller.quorum.election.backoff.max.ms int 1000 0.. static
controller.quorum.election.timeout.ms int 1000 0.. static
controller.quorum.fetch.max.bytes int 1048576 1.. static
controller.quorum.fetch.snapshot.max.bytes int 1048576 1.. static
controller.quorum.fetch.timeout.ms int 2000 0.. static
controller.quorum.request.timeout.ms int 2000 0.. static
controller.quorum.retry.backoff.ms int 20 0.. static
controller.quorum.voters list '' - static
controller.quota.window.num int 11 1.. static
controller.quota.window.size.seconds int 1 1.. static
controller.socket.timeout.ms int 30000 - static
cordoned.log.dirs list '' - broker
create.topic.policy.class.name class - - static
delegation.token.expiry.check.interval.ms long 3600000 1.. static
delegation.token.expiry.time.ms long 86400000 1.. static
delegation.token.max.lifetime.ms long 604800000 1.. static
delegation.token.secret.key password - - static
delete.records.purgatory.purge.interval.requests int 1 - static
early.start.listeners list - - static
errors.deadletterqueue.auto.create.topics.enable boolean false - cluster
errors.deadletterqueue.topic.name.prefix string dlq. - cluster
fetch.purgatory.purge.interval.requests int 1000 - static
follower.fetch.last.tiered.offset.enable boolean false - cluster
group.coordinator.append.linger.ms int -1 -1.. static
group.coordinator.background.threads int 2 1.. static
group.coordinator.cached.buffer.max.bytes int 1048588 524288.. cluster
group.coordinator.rebalance.protocols list classic,consumer,streams consumer|classic|share|streams static
group.coordinator.threads int 4 1.. static
group.share.assignment.interval.ms int 1000 0.. cluster
group.share.assignors list simple - static
group.share.delivery.count.limit int 5 2..10 static
group.share.heartbeat.interval.ms int 5000 1.. static
group.share.max.assignment.interval.ms int 15000 0.. static
group.share.max.delivery.count.limit int 10 5..25 static
group.share.max.heartbeat.interval.ms int 15000 1.. static
group.share.max.partition.max.record.locks int 4000 2000..10000 static
group.share.max.record.lock.duration.ms int 60000 30000..3600000 static
group.share.max.session.timeout.ms int 60000 1.. static
group.share.max.share.sessions int 2000 1.. static
group.share.max.size int 200 1..1000 static
group.share.min.assignment.interval.ms int 0 0.. static
group.share.min.delivery.count.limit int 2 2..5 static
group.share.min.heartbeat.interval.ms int 5000 1.. static
group.share.min.partition.max.record.locks int 100 100..2000 static
group.share.min.record.lock.duration.ms int 15000 1000..30000 static
group.share.min.session.timeout.ms int 45000 1.. static
group.share.partition.max.record.locks int 2000 100..10000 static
group.share.record.lock.duration.ms int 30000 1000..3600000 static
group.share.session.timeout.ms int 45000 1.. static
group.streams.assignment.interval.ms int 1000 0.. cluster
group.streams.assignors list sticky - static
group.streams.heartbeat.interval.ms int 5000 1.. static
group.streams.initial.rebalance.delay.ms int 3000 0.. static
group.streams.max.assignment.interval.ms int 15000 0.. static
group.streams.max.heartbeat.interval.ms int 15000 1.. static
group.streams.max.session.timeout.ms int 60000 1.. static
group.streams.max.size int 2147483647 1.. static
group.streams.max.standby.replicas int 2 0.. static
group.streams.min.assignment.interval.ms int 0 0.. static
group.streams.min.heartbeat.interval.ms int 5000 1.. static
group.streams.min.session.timeout.ms int 45000 1.. static
group.streams.num.standby.replicas int 0 0.. static
group.streams.rack.aware.assignment.tags list '' - static
group.streams.session.timeout.ms int 45000 1.. static
group.streams.topology.description.plugin.class class - - static
initial.broker.registration.timeout.ms int 60000 - static
inter.broker.listener.name string - - static
kafka.metrics.polling.interval.secs int 10 1.. static
kafka.metrics.reporters list '' - static
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - broker
listeners list PLAINTEXT://:9092 - broker
log.cleaner.io.buffer.load.factor double 0.9 - cluster
log.cleaner.io.buffer.size int 524288 0.. cluster
log.dir list /tmp/kafka-logs - static
log.dir.failure.timeout.ms long 30000 1.. static
log.dirs list - - static
max.connection.creation.rate int 2147483647 0.. cluster
max.incremental.fetch.session.cache.slots int 1000 0.. static
max.request.partition.size.limit int 2000 1.. static
metadata.log.dir string - - static
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. static
metadata.log.max.snapshot.interval.ms long 3600000 0.. static
metadata.log.segment.bytes int 1073741824 8388608.. static
metadata.log.segment.ms long 604800000 - static
metadata.max.idle.interval.ms int 500 0.. static
metadata.max.retention.bytes long 104857600 - static
metadata.max.retention.ms long 604800000 - static
metric.reporters list org.apache.kafka.common.metrics.JmxReporter - cluster
metrics.num.samples int 2 1.. static
metrics.recording.level string INFO - static
metrics.sample.window.ms long 30000 1.. static
node.id int - 0.. static
num.io.threads int 8 1.. cluster
num.network.threads int 3 1.. cluster
num.replica.alter.log.dirs.threads int - - static
num.replica.fetchers int 1 1.. cluster
offsets.load.buffer.size int 5242880 1.. static
offsets.topic.compression.codec int 0 - static
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - broker
process.roles list - broker|controller static
producer.purgatory.purge.interval.requests int 1000 - static
queued.max.request.bytes long -1 - static
quota.window.num int 11 1.. static
quota.window.size.seconds int 1 1.. static
remote.fetch.max.wait.ms int 500 1.. cluster
remote.list.offsets.request.timeout.ms long 30000 1.. cluster
remote.log.index.file.cache.total.size.bytes long 1073741824 1.. cluster
remote.log.manager.copier.thread.pool.size int 10 1.. cluster
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. cluster
remote.log.manager.copy.quota.window.num int 11 1.. static
remote.log.manager.copy.quota.window.size.seconds int 1 1.. static
remote.log.manager.expiration.thread.pool.size int 10 1.. cluster
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. cluster
remote.log.manager.fetch.quota.window.num int 11 1.. static
remote.log.manager.fetch.quota.window.size.seconds int 1 1.. static
remote.log.manager.follower.thread.pool.size int 2 1.. cluster
remote.log.manager.task.interval.ms long 30000 1.. static
remote.log.manager.thread.pool.size int 2 1.. static
remote.log.metadata.custom.metadata.max.bytes int 128 0.. static
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager - static
remote.log.metadata.manager.class.path string - - static
remote.log.metadata.manager.impl.prefix string rlmm.config. - static
remote.log.metadata.manager.listener.name string - - static
remote.log.reader.max.pending.tasks int 100 1.. static
remote.log.reader.threads int 10 1.. cluster
remote.log.storage.manager.class.name string - - static
remote.log.storage.manager.class.path string - - static
remote.log.storage.manager.impl.prefix string rsm.config. - static
remote.log.storage.system.enable boolean false - static
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. cluster
replica.selector.class string - - static
replica.socket.receive.buffer.bytes int 65536 - static
replica.socket.timeout.ms int 30000 - static
replication.quota.window.num int 11 1.. static
replication.quota.window.size.seconds int 1 1.. static
request.timeout.ms int 30000 - static
sasl.client.callback.handler.class class - - static
sasl.enabled.mechanisms list GSSAPI - broker
sasl.jaas.config password - - broker
sasl.kerberos.kinit.cmd string /usr/bin/kinit - broker
sasl.kerberos.min.time.before.relogin long 60000 - broker
sasl.kerberos.principal.to.local.rules list DEFAULT - broker
sasl.kerberos.service.name string - - broker
sasl.kerberos.ticket.renew.jitter double 0.05 - broker
sasl.kerberos.ticket.renew.window.factor double 0.8 - broker
sasl.login.callback.handler.class class - - static
sasl.login.class class - - static
sasl.login.connect.timeout.ms int - - static
sasl.login.read.timeout.ms int - - static
sasl.login.refresh.buffer.seconds short 300 - broker
sasl.login.refresh.min.period.seconds short 60 - broker
sasl.login.refresh.window.factor double 0.8 - broker
sasl.login.refresh.window.jitter double 0.05 - broker
sasl.login.retry.backoff.max.ms long 10000 - static
sasl.login.retry.backoff.ms long 100 - static
sasl.mechanism.controller.protocol string GSSAPI - static
sasl.mechanism.inter.broker.protocol string GSSAPI - broker
sasl.oauthbearer.allow.unverified.audience boolean false - static
sasl.oauthbearer.allow.unverified.issuer boolean false - static
sasl.oauthbearer.assertion.algorithm string RS256 ES256|RS256 static
sasl.oauthbearer.assertion.claim.aud string - - static
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 static
sasl.oauthbearer.assertion.claim.iss string - - static
sasl.oauthbearer.assertion.claim.jti.include boolean false - static
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 static
sasl.oauthbearer.assertion.claim.sub string - - static
sasl.oauthbearer.assertion.file string - - static
sasl.oauthbearer.assertion.private.key.file string - - static
sasl.oauthbearer.assertion.private.key.passphrase password - - static
sasl.oauthbearer.assertion.template.file string - - static
sasl.oauthbearer.client.credentials.client.id string - - static
sasl.oauthbearer.client.credentials.client.secret password - - static
sasl.oauthbearer.clock.skew.seconds int 30 - static
sasl.oauthbearer.expected.audience list '' - static
sasl.oauthbearer.expected.issuer string - - static
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - static
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - static
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - static
sasl.oauthbearer.jwks.endpoint.url string - - static
sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever - static
sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator - static
sasl.oauthbearer.scope string - - static
sasl.oauthbearer.scope.claim.name string scope - static
sasl.oauthbearer.sub.claim.name string sub - static
sasl.oauthbearer.token.endpoint.url string - - static
sasl.server.callback.handler.class class - - static
sasl.server.max.receive.size int 524288 - static
security.inter.broker.protocol string PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL static
security.providers string - - static
share.coordinator.append.linger.ms int -1 -1.. static
share.coordinator.cached.buffer.max.bytes int 1048588 524288.. cluster
share.coordinator.load.buffer.size int 5242880 1.. static
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 static
share.coordinator.state.topic.compression.codec int 0 - static
share.coordinator.state.topic.min.isr short 2 1.. static
share.coordinator.state.topic.num.partitions int 50 1.. static
share.coordinator.state.topic.replication.factor short 3 1.. static
share.coordinator.state.topic.segment.bytes int 104857600 1.. static
share.coordinator.threads int 1 1.. static
share.coordinator.write.timeout.ms int 5000 1.. static
share.fetch.purgatory.purge.interval.requests int 1000 - static
socket.connection.setup.timeout.max.ms long 30000 - static
socket.connection.setup.timeout.ms long 10000 - static
socket.listen.backlog.size int 50 1.. static
socket.receive.buffer.bytes int 102400 - static
socket.send.buffer.bytes int 102400 - static
ssl.allow.dn.changes boolean false - static
ssl.allow.san.changes boolean false - static
ssl.cipher.suites list '' - broker
ssl.client.auth string none required|requested|none broker
ssl.enabled.protocols list TLSv1.2,TLSv1.3 - broker
ssl.endpoint.identification.algorithm string https - broker
ssl.engine.factory.class class - - broker
ssl.key.password password - - listener
ssl.keymanager.algorithm string SunX509 - broker
ssl.keystore.certificate.chain password - - listener
ssl.keystore.key password - - listener
ssl.keystore.location string - - listener
ssl.keystore.password password - - listener
ssl.keystore.type string JKS - listener
ssl.principal.mapping.rules string DEFAULT - static
ssl.protocol string TLSv1.3 - broker
ssl.provider string - - broker
ssl.secure.random.implementation string - - broker
ssl.trustmanager.algorithm string PKIX - broker
ssl.truststore.certificates password - - listener
ssl.truststore.location string - - listener
ssl.truststore.password password - - listener
ssl.truststore.type string JKS - listener
telemetry.max.bytes int 1048576 1.. static
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. static
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. static
transaction.state.log.load.buffer.size int 5242880 1.. static
transaction.two.phase.commit.enable boolean false - static
"""

_GROUP: Final = """
errors.deadletterqueue.copy.record.enable boolean false - group
errors.deadletterqueue.topic.name string '' - group
share.assignment.interval.ms int 1000 0..15000 group
share.auto.offset.reset string latest ~latest|earliest|by_duration:P[0-9DTHMS.]+ group
share.delivery.count.limit int 5 2..10 group
share.heartbeat.interval.ms int 5000 5000..15000 group
share.isolation.level string read_uncommitted read_committed|read_uncommitted group
share.partition.max.record.locks int 2000 100..4000 group
share.record.lock.duration.ms int 30000 15000..60000 group
share.renew.acknowledge.enable boolean true - group
share.session.timeout.ms int 45000 45000..60000 group
streams.assignment.interval.ms int 1000 0..15000 group
streams.assignor.name string - - group
streams.heartbeat.interval.ms int 5000 5000..15000 group
streams.initial.rebalance.delay.ms int 3000 0.. group
streams.num.standby.replicas int 0 0..2 group
streams.rack.aware.assignment.tags list '' - group
streams.session.timeout.ms int 45000 45000..60000 group
"""

_CLIENT_METRICS: Final = """
interval.ms int 300000 100..3600000 client-metrics
match list '' ~(client_(id|instance_id|software_name|software_version|source_address|source_port))=.+ client-metrics
metrics list '' - client-metrics
"""

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(?P<base>.+)")
_OF_MECHANISM: Final = re.compile(
    r"[^.]+\.(?P<base>sasl\.jaas\.config|sasl\.login\.class|sasl\.login\.callback\.handler\.class"
    r"|sasl\.server\.callback\.handler\.class|connections\.max\.reauth\.ms)"
)
_EVERY_LISTENERS: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})


def _keys(table: str) -> Mapping[str, ConfigKey]:
    return {key.name: key for key in map(_key, table.strip().splitlines())}


def _key(line: str) -> ConfigKey:
    name, type_, default, legal, changed_by = line.split()
    key = ConfigKey(
        name,
        ConfigType(type_),
        {"-": None, "''": ""}.get(default, default),
        _DOC,
        Scope.CLUSTER if changed_by == "static" else Scope(changed_by),
        dynamic=changed_by != "static",
    )
    return key if legal == "-" else _bounded(key, legal)


def _bounded(key: ConfigKey, legal: str) -> ConfigKey:
    if legal.startswith("~"):
        return replace(key, pattern=legal[1:])
    if ".." not in legal:
        return replace(key, choices=tuple(legal.split("|")))
    least, _, most = legal.partition("..")
    return replace(key, least=float(least), most=float(most) if most else None)


OTHER_BROKER_CONFIGS: Final = _keys(_BROKER)
"""Broker configs that config_table does not have: nothing acts on them."""

OTHER_GROUP_CONFIGS: Final = _keys(_GROUP)
"""Configs of one group that config_table does not have: nothing acts on them."""

CLIENT_METRICS_CONFIGS: Final = _keys(_CLIENT_METRICS)


def of_listener(name: str, known: Mapping[str, ConfigKey]) -> ConfigKey | None:
    """Return the config of one listener, or of one of its SASL mechanisms:
    `listener.name.external.ssl.keystore.type`."""
    match = _OF_LISTENER.fullmatch(name)
    if match is None:
        return None
    of_mechanism = _OF_MECHANISM.fullmatch(match["base"])
    base = OTHER_BROKER_CONFIGS.get(of_mechanism["base"] if of_mechanism else match["base"]) or known.get(match["base"])
    if base is None:
        return None
    scope = Scope.CLUSTER if base.name in _EVERY_LISTENERS else Scope.BROKER
    return replace(base, name=name, default=None, scope=scope, dynamic=True, enforced=False, doc=_DOC)
