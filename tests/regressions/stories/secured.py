"""Secured clusters: what let strangers in, and what let them take time, memory and connections from others."""

from __future__ import annotations

from contextlib import nullcontext

from tests.regressions.injection import altered, constant, instead_of, skipped
from tests.regressions.story import Story


def _without_a_limit_for_handshakes(options):
    return tuple((name, value) for name, value in options if name != "grpc.server_handshake_timeout_ms")


def _in_plaintext_first(original, address, limit_s, entry):
    from ottla.client.kafka_probe import look_at

    look_at(address, limit_s)
    return original(address, limit_s, entry)


def _without_a_token(original, self, name, *kafka):
    settings = original(self, name, *kafka)
    del settings["admin-token-file"]
    return settings


STORIES = (
    Story(
        "planted-password-is-taken",
        "`ottla up --secure` took a directory that another user of the host had made, with a password and a CA in it",
        skipped("ottla_stack.commands:_check_place"),
        skipped("ottla_stack.commands:check_owner"),
    ),
    Story(
        "names-that-command-a-terminal",
        "Names of groups, clients and transactions reached an administrator's terminal with their escape sequences",
        instead_of("ottla_core.text.printable:printable", lambda original, text: text),
        instead_of("ottla_core.text.printable:printable_json", lambda original, text: text),
    ),
    Story(
        "revocation-that-waits-for-a-request",
        "With more than 1,000 ACLs, the first request after a revocation was allowed, however late it came",
        skipped("ottla_broker.kafka.authorization.current_authorizer:CurrentAuthorizer.on_image"),
    ),
    Story(
        "revocation-that-a-parked-fetch-outlives",
        "A fetch that waited when its ACL was removed returned the records that were written afterwards",
        instead_of("ottla_broker.kafka.authorization.access:LimitedAccess.as_of_now", lambda original, access: access),
    ),
    Story(
        "service-owns-all-of-etcd",
        "In a stack of `ottla up --secure`, each service's certificate opened all keys in etcd, not only its cluster's",
        skipped("ottla_stack.etcd_users:make_users", 0),
    ),
    Story(
        "secured-stack-names-topics-to-everybody",
        "The admin ports of a secured stack had no token, so every user of the host could read its topics and groups",
        instead_of("ottla_stack.secure_files:SecureFiles.settings", _without_a_token),
    ),
    Story(
        "data-is-readable-by-every-user",
        "Every user of the host could read all records and logs of a cluster, and of a secured one as well",
        instead_of("ottla_core.files.private_files:private_files", lambda original: nullcontext()),
    ),
    Story(
        "service-as-a-kafka-client",
        "A service's certificate opened a Kafka listener that trusted its authority: broker 0 was the user CN=0",
        skipped("ottla_broker.kafka.keystore:service_uris", ()),
    ),
    Story(
        "secured-stack-starts-open",
        "A stack that was made by `ottla up --secure` served everyone in plaintext after a start by `ottla up`",
        constant("ottla_stack.secure_files:SecureFiles.exist", False),
    ),
    Story(
        "doctor-in-plaintext",
        "`ottla doctor` sent plaintext to listeners with TLS, and each broker logged a client that does not speak TLS",
        skipped("ottla_cli.commands.doctor:entries_of", {}),
        instead_of("ottla.client.kafka_probe:_look_as", _in_plaintext_first),
    ),
    Story(
        "silent-connections-of-services",
        "A connection to a gRPC port that said nothing kept its memory and its file descriptor for two minutes",
        altered("ottla_core.rpc.transport:SERVER_OPTIONS", _without_a_limit_for_handshakes),
    ),
    Story(
        "handshakes-end-before-their-turn",
        "With more new clients than a broker could serve, the oldest TLS handshake ended whenever one more began, "
        "although it only waited for its turn. Almost no handshake was finished",
        instead_of(
            "ottla_broker.kafka.network.tls_port:TlsPort._next_to_end",
            lambda original, self: next(iter(self._handshakes)),
        ),
    ),
)
