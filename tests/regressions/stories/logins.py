"""Logins and TLS of the SDK's clients."""

from __future__ import annotations

import os
import re
from threading import Thread

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_CONNECTION = "ottla.client.kafka.connection:KafkaConnection"


def _with_none_as_text(original, given, config, names):
    """Take None for Kafka's `none`."""
    return original(given, {name: "none" if value is None else value for name, value in config.items()}, names)


def _with_the_code_of_the_end(original, self, call, code, reason, **how):
    return original(self, call, code if self.ended is None else self.ended.code, reason, **how)


def _on_another_thread(self, line):
    Thread(target=line.get_credentials, daemon=True).start()


def _as_in_a_handshake(original, self, error):
    self._has_opened = False
    return original(self, error)


STORIES = (
    Story(
        "unset-verification-trusts-every-host",
        "`ssl.endpoint.identification.algorithm` with the value None turned the verification of host names off",
        instead_of("ottla.client.security.names:_tls", _with_none_as_text),
    ),
    Story(
        "password-for-another-address",
        "`ottla -X bootstrap.servers=other:9092` sent the password of the profile in OTTLA_PROFILE to that address",
        instead_of("ottla_cli.settings:chosen_profile", lambda original, named, _: original(named, None)),
    ),
    Story(
        "escapes-of-properties",
        "A password in a properties file was read with its escapes, and the broker rejected the login",
        constant("ottla.client.settings:_ESCAPED", re.compile("(?!)")),
    ),
    Story(
        "no-token-for-a-moment",
        "A connection whose session was still valid ended when the function of an OAuthBearer once had no token",
        instead_of(f"{_CONNECTION}.refuse_login", lambda original, self, error, _: self.refuse(error)),
    ),
    Story(
        "sent-call-without-a-login",
        "Records that had been sent counted as rejected when there was no token for the next login",
        instead_of(f"{_CONNECTION}._fail", _with_the_code_of_the_end),
    ),
    Story(
        "late-alert-is-fatal",
        "A TLS alert on a connection that had been in use for hours was taken for a rejected certificate",
        instead_of("ottla.client.kafka.sockets.tls_wire:TlsWire._failure", _as_in_a_handshake),
    ),
    Story(
        "one-bad-certificate",
        "A client gave up if the first broker that it asked had a bad certificate, although others had valid ones",
        instead_of("ottla.client.cluster:ClusterClient._addresses", lambda original, self: original(self)[:1]),
    ),
    Story(
        "rejected-login-again-and-again",
        "After a rejected login, a client tried again about once a second until it was closed, even if nobody used it",
        skipped("ottla.client.metadata_updater:MetadataUpdater._is_rejected", False),
    ),
    Story(
        "mirror-of-the-environment",
        "With OTTLA_MIRROR set, a MirrorClient ignored bootstrap=, login= and tls= without a word",
        instead_of(
            "ottla.mirror.client:channel_to",
            lambda original, address, *rest: original(address or os.environ.get("OTTLA_MIRROR"), *rest),
        ),
    ),
    Story(
        "hanging-token-functions-pile-up",
        "While a token function did not return, each attempt to connect called it again on another thread",
        constant("ottla.client.kafka.sockets.logins:LoginThreads.begin", _on_another_thread),
    ),
    Story(
        "old-librdkafka-can-not-log-in",
        "librdkafka before 2.6.1, so kcat of Debian 12, could not log in by SCRAM: it repeats its nonce once too often",
        instead_of(
            "ottla_core.security.scram_exchange:_parse_final",
            lambda original, message, header, nonces: original(message, header, nonces[:1]),
        ),
    ),
)
