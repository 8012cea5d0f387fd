"""Write docs/kafka-apis.md from the dispatch table of the Kafka listener; `--check` fails where the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import APIS, PRIVATE
from ottla_broker.kafka.private_methods import PRIVATE_METHODS

PAGE = Path(__file__).resolve().parent.parent / "docs/kafka-apis.md"

HEAD = """\
# Kafka APIs

What the brokers' Kafka listener serves, and so what ApiVersions advertises. `make coverage-table` writes this page from
the modules in `services/broker/ottla_broker/kafka/handlers`. All arrays of a request together have at most as many
elements as the table says. A larger request ends its connection.

| key | API | versions | Apache Kafka 4.4 | flexible from | elements of arrays | forwards to |
|---|---|---|---|---|---|---|
"""

SERVICES = {"Controller": "controller", "Group": "group-coordinator", "Txn": "txn-coordinator"}
NEWER = {
    "AddPartitionsToTxn": "0–5",
}
"""Where Kafka 4.4 has other versions; `make compat CLIENTS=differs` compares them with a running broker's."""


def codes() -> str:
    """The codes that only some versions of an API know."""
    rows = [
        f"| {api.name} | {code.name} | {since.version if since.version <= api.max_version else 'none yet'} "
        f"| {since.before.name} |\n"
        for api in APIS.values()
        for code, since in api.errors.since.items()
    ]
    return "".join(rows)


def needs(path: str) -> str:
    """What a client needs for a private method, as the broker checks it."""
    called = PRIVATE_METHODS[path]
    needed = [
        f"{need.operation.name} on the {need.resource_type.name.lower().replace('_', ' ')}" for need in called.needs
    ]
    return ", ".join([*needed, *(["DESCRIBE on each topic that the response names"] if called.shows else [])])


def private() -> str:
    """The section about the API that is not Kafka's."""
    called = [each.method for each in PRIVATE_METHODS.values()]
    rows = [f"| {method.service}.{method.name} | {needs(method.path)} |\n" for method in called]
    return f"""\
## The private API

Kafka's messages can't express every call of ottla's clients. For the other calls there is one more API: {PRIVATE.name},
with the key {PRIVATE.key}. Brokers show and serve it only to clients that call themselves "ottla" in ApiVersions. To
all other clients it is an unknown API (`docs/adr/0028`). Its request names one of these methods, and the broker serves
the method itself, or forwards the call to the service that has it:

| method | the client needs |
|---|---|
{"".join(rows)}
To these clients, brokers also send some responses with private fields: tagged fields from {PRIVATE.key} on, which
`private_fields.json` lists. Other clients get none.
"""


TAIL = (
    """
Versions are Kafka 4's. Kafka's APIs for altering reassignments or quotas, delegation tokens, telemetry, share groups
and streams groups are not served. AddPartitionsToTxn 4 and 5 are used only between brokers. What
is different, and why:

- **DescribeClientQuotas** always responds that there are no quotas, because kafka-configs asks for them before it
  describes a user.
- **ListPartitionReassignments** always responds that none is ongoing, because replicas never move to other brokers.
- **Produce** is advertised from 0 and served from 3, as Kafka does it: old librdkafka (2.3.0 was seen to) takes a
  larger minimum for a broker without compression, and sends gzip, snappy and lz4 uncompressed. A request of version 0
  to 2 ends its connection. From 12 on the broker adds the partitions to the transaction (KIP-890); the finalized
  feature `transaction.version` is at level 2, at no other.
- **Produce** that is refused for single records of a batch names each of them (KIP-467), up to 1,000: clients blame
  those, and may send the others again. Of a batch that is compressed, or above 64 KiB, no timestamps are named.
- **FindCoordinator** names a broker for a group or a transactional id: that broker forwards requests to the
  coordinator.
- **ConsumerGroupHeartbeat** and **ConsumerGroupDescribe** are the consumer protocol (KIP-848), which is on in every
  cluster: the finalized feature `group.version` is at level 1. A regular expression matches the topics that the
  client may describe, as in Kafka. A heartbeat has at most 10,000 topics, where Kafka has no limit.
- **AddPartitionsToTxn** is served up to version 3, the highest that clients use: brokers verify
  partitions by a contract of their own.
- **WriteTxnMarkers** is for operators (`kafka-transactions abort`): txn-coordinators write by a contract of their own.
  Internal topics are INVALID_TOPIC_EXCEPTION. Above 10,000 elements a request ends its connection.
- **Fetch** with a replica id is refused (TOPIC_AUTHORIZATION_FAILED): brokers copy from each other over gRPC.
- **Metadata** that names an unknown topic creates it, unless the client or `auto.create.topics.enable` says no. That is
  on, as in Kafka: a console producer, and many a program, counts on it. Where a typing error must not make a topic, set
  it to false; ottla's SDK never creates a topic so. The answer waits a moment for the topic, where Kafka's first says
  that there is none. One request creates up to 100.
- **DeleteRecords** answers when every live replica has followed (REQUEST_TIMED_OUT: it is done on the leader, and the
  others follow), and refuses topics whose `cleanup.policy` has no delete, as Kafka does.
- **SaslHandshake** and **SaslAuthenticate** log clients in on listeners of the SASL protocols, with or without TLS,
  by both kinds of SCRAM and, if it is enabled, PLAIN. As in Kafka, only ApiVersions may come before them. SCRAM
  refuses an unknown user at its last message, like a wrong password, where Kafka does so at the first. In the middle
  of an exchange another API ends the connection at once, where Kafka answers ILLEGAL_SASL_STATE first. A client has
  30 s to log in, and then stays logged in without a limit. A second login gets ILLEGAL_SASL_STATE, and so does a
  login on any other listener.
- **DescribeAcls**, **CreateAcls** and **DeleteAcls** answer SECURITY_DISABLED unless brokers have an authorizer
  (`authorizer_class_name`), as in Kafka.
- **AlterConfigs** and **IncrementalAlterConfigs** take every config name of Kafka 4.4, also those of one listener. A
  config without effect is checked by its type and stored, its description says that it has no effect, and the
  controller logs it. A config that only a broker's process may set is refused, as in Kafka. All configs of the cluster
  as a whole are dynamic here. A name that Kafka does not have either is refused with a hint at the nearest name, where
  Kafka's brokers would store it. Passwords are never returned.
- **DescribeConfigs** and the two above know topics, brokers, groups, subscriptions to clients' metrics (nothing acts on
  the last two yet), and the loggers of the broker that is asked: Python's, with Kafka's levels, as long as the process
  lives. Of the cluster-wide default, Kafka describes only what is set, and so does ottla, except to its own clients.
- **AlterReplicaLogDirs** answers LOG_DIR_NOT_FOUND: a broker has one directory. A request that names
  the replica's own directory succeeds and changes nothing.
- **DescribeQuorum** is answered by the elected controller, through the broker. There is no Raft here: the one voter is
  that controller, standbys are not listed, offsets are revisions of etcd, and brokers are observers, of which only
  the one that is asked knows how far it has followed. The endpoint named GRPC is not reached by Kafka's protocol.
- What the controller decides is passed on to it within the request's time, but 1 s at least and 60 s at most. If it
  goes away meanwhile, the next one is asked, as Kafka's brokers do; if there is none in time, the answer is one that
  clients retry: NOT_CONTROLLER where nothing was done, REQUEST_TIMED_OUT where the outcome is unknown.

"""
    + private()
    + """
## Error codes

A response carries no error code that its version does not know. Every response is checked where it is encoded, against
the codes that the module of its handler lists. If a version does not know a code, it gets the one that Kafka sends:

| API | code | from version | before it |
|---|---|---|---|
"""
    + codes()
    + """
A code that an API does not list is a bug: it is logged, and the client gets UNKNOWN_SERVER_ERROR.

An API that is not listed, or another version of one that is, ends the connection; only ApiVersions answers a version
that it does not know, in version 0 and with its own range (KIP-511).
"""
)


def row(api: Api) -> str:
    served = f"{api.min_version}–{api.max_version}"
    if api.advertised_min != api.min_version:
        served += f" (advertised from {api.advertised_min})"
    flexible = api.flexible.start if api.flexible else "never"
    service = "" if api.forwards is None else SERVICES[api.forwards.service]
    kafkas = NEWER.get(api.name, "as here")
    return f"| {api.key} | {api.name} | {served} | {kafkas} | {flexible} | {api.most_elements:,} | {service} |\n"


def page() -> str:
    return HEAD + "".join(map(row, APIS.values())) + TAIL


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            print("docs/kafka-apis.md is stale: run `make coverage-table`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
