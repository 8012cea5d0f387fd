"""admin.users: set the passwords of users who log in by SCRAM or PLAIN, list users, and delete them (KIP-554).

They are Kafka's own requests, so they work with Apache Kafka, too. A password never leaves this process: brokers get
what SCRAM derives from it and from a random salt.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NoReturn, TypeAlias

from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.propagation import until_each
from ottla.client.kafka.apis import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from ottla.client.kafka.exchange import Exchange
from ottla.client.settings import one_of
from ottla.client.units import Duration
from ottla.errors import ConfigError, ErrorCode, config_error, did_you_mean, error_from_code
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ottla_core.security.saslprep import is_prepared
from ottla_core.security.scram import LEAST_ITERATIONS, MECHANISMS, SALT_BYTES, Mechanism, salted_password
from ottla_core.security.secret import Secret

_Change: TypeAlias = AlterUserScramCredentialsRequest
_Upsertion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Deletion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialDeletion

Infos = list["UserInfo"]

_CODES: Final[Mapping[Mechanism, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's codes of the mechanisms."""
_MECHANISMS: Final = {code: mechanism for mechanism, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user with the mechanisms by which it can log in. `iterations` has, for each of them, how often SCRAM hashes the
    password."""

    name: str
    iterations: Mapping[Mechanism, int]

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms, sorted."""
        return tuple(sorted(self.iterations))


class Users:
    """The users that a cluster keeps in its metadata.

    Brokers also know the users in their sasl_credentials_file, which are not listed here. Listing needs DESCRIBE on the
    cluster, and changes need ALTER on it. Every method raises AuthorizationError without these rights.
    """

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def set_password(
        self,
        name: str,
        password: str | Secret,
        *,
        mechanisms: Sequence[Mechanism] = MECHANISMS,
        iterations: int = LEAST_ITERATIONS,
        timeout: Duration | None = None,
    ) -> None:
        """Set a user's password for some mechanisms, one after the other, and create the user if there is none.

        A password for other mechanisms stays as it is, so the default is all of them. `iterations` is 4096 to 16384:
        more make a stolen credential harder to guess from, and each login slower. Existing connections stay open.

        Returns once every reachable broker has the user. Raises ConfigError for a name or password that some clients
        could not log in with, and for an unknown mechanism.
        """
        deadline = self._channel.deadline(timeout)
        if not name or not is_prepared(name):
            raise config_error(
                f"the user name {name!r} is empty, or has characters that SCRAM treats in different ways (RFC 4013)",
                hint="use letters, digits and punctuation of ASCII",
            )
        _check_mechanisms(mechanisms)
        changes = [_Change(upsertions=[_upsertion(name, Secret(password), each, iterations)]) for each in mechanisms]
        self._alter(changes, deadline)
        expected = dict.fromkeys(mechanisms, iterations)
        self._until_each(name, lambda known: known.items() >= expected.items(), deadline, f"the user {name} is set")

    def list(self, *, timeout: Duration | None = None) -> Infos:
        """Return all users, sorted by name."""
        deadline = self._channel.deadline(timeout)
        found = self._channel.retried(partial(self._described, (), deadline), deadline)
        return [found[name] for name in sorted(found)]

    def describe(self, *names: str, timeout: Duration | None = None) -> Infos:
        """Return the named users in the given order. Raises FatalError with RESOURCE_NOT_FOUND for a missing one."""
        deadline = self._channel.deadline(timeout)
        found = self._channel.retried(partial(self._described, names, deadline), deadline) if names else {}
        for name in names:
            if name not in found:
                self._raise_missing(name, deadline)
        return [found[name] for name in names]

    def exists(self, name: str, *, timeout: Duration | None = None) -> bool:
        """Return whether there is a user of that name."""
        deadline = self._channel.deadline(timeout)
        return name in self._channel.retried(partial(self._described, [name], deadline), deadline)

    def delete(
        self,
        name: str,
        *,
        mechanisms: Sequence[Mechanism] | None = None,
        if_missing: Literal["error", "ok"] = "error",
        timeout: Duration | None = None,
    ) -> None:
        """Delete a user, or only its password for some mechanisms. Its open connections and its ACLs stay.

        Returns once no reachable broker has the user. Raises FatalError with RESOURCE_NOT_FOUND if there is no such
        user or password, unless if_missing="ok".
        """
        one_of(if_missing, "if_missing", ("error", "ok"))
        deadline = self._channel.deadline(timeout)
        if mechanisms is not None:
            _check_mechanisms(mechanisms)
        found = self._channel.retried(partial(self._described, [name], deadline), deadline)
        known = found[name].mechanisms if name in found else ()
        gone = [mechanism for mechanism in (mechanisms or known) if mechanism in known]
        missing = [mechanism for mechanism in mechanisms or () if mechanism not in known]
        if if_missing == "error" and not known:
            self._raise_missing(name, deadline)
        if if_missing == "error" and missing:
            raise error_from_code(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"the user {name} has no password for {missing[0]}",
                hint=f"it has {' and '.join(known)}",
            )
        if not gone:
            return
        deletions = [_Deletion(name=name, mechanism=_CODES[mechanism]) for mechanism in gone]
        self._alter([_Change(deletions=[each]) for each in deletions], deadline)
        self._until_each(name, lambda known: known.keys().isdisjoint(gone), deadline, f"the user {name} is deleted")

    def _alter(self, changes: Sequence[_Change], deadline: Deadline) -> None:
        """Make the changes one by one, because Apache Kafka takes one for each user in a request."""
        for change in changes:
            self._channel.retried(partial(self._alter_one, change, deadline), deadline)

    def _alter_one(self, change: _Change, deadline: Deadline) -> None:
        self._channel.cluster.exchange_any(alteration(change), timeout=deadline.left())

    def _described(self, names: Sequence[str], deadline: Deadline) -> dict[str, UserInfo]:
        return self._channel.cluster.exchange_any(description(names), timeout=deadline.left())

    def _until_each(
        self, name: str, good: Callable[[Mapping[Mechanism, int]], bool], deadline: Deadline, done: str
    ) -> None:
        """Wait until each broker's answer about the user is `good`."""

        def knows(address: str, timeout: float) -> bool:
            found = self._channel.cluster.exchange(address, description([name]), timeout=timeout)
            return good(found[name].iterations if name in found else {})

        until_each(self._channel, knows, deadline, done)

    def _raise_missing(self, name: str, deadline: Deadline) -> NoReturn:
        names = self._channel.retried(partial(self._described, (), deadline), deadline)
        hint = did_you_mean(name, names, "create it with Admin().users.set_password(…)")
        raise error_from_code(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name!r}", hint=hint)


def _check_mechanisms(mechanisms: Sequence[str]) -> None:
    if isinstance(mechanisms, str) or not mechanisms or len(set(mechanisms)) < len(mechanisms):
        raise config_error("mechanisms= is no list of different mechanisms", hint=f"pass some of {MECHANISMS}")
    for mechanism in mechanisms:
        one_of(mechanism, "mechanisms", MECHANISMS)


def _upsertion(name: str, password: Secret, mechanism: Mechanism, iterations: int) -> _Upsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    try:
        salted = salted_password(mechanism, password.reveal(), salt=salt, iterations=iterations)
    except OttlaError as error:
        raise ConfigError(error.code, error.message, hint=error.hint) from None
    return _Upsertion(name=name, mechanism=_CODES[mechanism], iterations=iterations, salt=salt, salted_password=salted)


def alteration(change: _Change) -> Exchange[None]:
    """Return the exchange that changes passwords."""

    def check(response: AlterUserScramCredentialsResponse) -> None:
        for result in response.results:
            # A request that is repeated after a lost response finds nothing left to delete.
            if result.error_code and not (change.deletions and result.error_code == ErrorCode.RESOURCE_NOT_FOUND):
                raise error_from_code(result.error_code, result.error_message or "", of=f"user {result.user}")

    return Exchange(ALTER_USER_SCRAM_CREDENTIALS, lambda _: change, check)


def description(names: Sequence[str]) -> Exchange[dict[str, UserInfo]]:
    """Return the exchange that asks for some users, or for all if `names` is empty.

    Apache Kafka 4.4 does not respond to a null list, which also means all.
    """
    users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in dict.fromkeys(names)]
    request = DescribeUserScramCredentialsRequest(users=users)
    return Exchange(DESCRIBE_USER_SCRAM_CREDENTIALS, lambda _: request, _found)


def _found(response: DescribeUserScramCredentialsResponse) -> dict[str, UserInfo]:
    """Return the users in a response, without those that it does not know. Raises any other error that it has."""
    found: dict[str, UserInfo] = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            raise error_from_code(result.error_code, result.error_message or "", of=f"user {result.user}")
        infos = result.credential_infos
        known = {_MECHANISMS[info.mechanism]: info.iterations for info in infos if info.mechanism in _MECHANISMS}
        found[result.user] = UserInfo(result.user, known)
    return found
