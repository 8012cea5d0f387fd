"""Makes the files of a secured stack: certificates, the first user with a password, and a profile for clients.

What exists stays as it is, so that a stack that is started again has the same authorities and users. Only certificates
that end soon are issued again. The first user is in a file of the brokers, because this user has to exist before a
listener opens. If the user changes the password later, the cluster keeps the new one, which counts from then on.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ottla.errors import config_error
from ottla_core.security.scram import LEAST_ITERATIONS, MECHANISMS, SALT_BYTES, ScramCredential
from ottla_stack.ca.directory import AUTHORITY_LIFETIME, AUTHORITY_NAME, LIFETIME, CaDirectory
from ottla_stack.ca.subject import CLIENT, Subject, subject
from ottla_stack.ca.subject import LISTENER as LISTENER_KIND
from ottla_stack.etcd_roles import ROOT
from ottla_stack.plan import StackPlan
from ottla_stack.private_files import make_private_directory, write_private
from ottla_stack.secure_files import ADMIN, ETCD, LISTENER, PROFILE, SecureFiles

_PASSWORD_BYTES: Final = 24
LOGIN: Final[Mapping[str, str]] = MappingProxyType({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"})
"""How users log in, under Kafka's names."""
SOON: Final = timedelta(days=30)
"""A certificate that ends within this time is issued again."""


def make_missing(plan: StackPlan, files: SecureFiles) -> None:
    """Make the files that are missing. Raises ConfigError."""
    make_private_directory(files.directory)
    issue_missing(files.ca, [*services_of(plan), subject(LISTENER_KIND, LISTENER), subject("admin", ADMIN)])
    users = [subject(CLIENT, name) for name in (ROOT, *plan.etcd_users)]
    issue_missing(files.etcd_ca, [subject(LISTENER_KIND, ETCD), *users])
    make_password(files.admin_token)
    make_first_user(files)
    ca = str(files.ca / "ca.pem")
    write_private(files.clients, profile(PROFILE, plan.bootstrap, ADMIN, str(files.password), ca))


def services_of(plan: StackPlan) -> list[Subject]:
    """Return the subjects for which the stack's services need certificates."""
    names = [service.name.rpartition("-") for service in plan.services()]
    return [subject(kind, number) for kind, _, number in names]


def issue_missing(directory: Path, subjects: Sequence[Subject]) -> None:
    """Issue certificates for the subjects that have none, or one that ends soon, by a new authority if there is none.
    Raises ConfigError."""
    place = CaDirectory(directory)
    if not place.authorities_path.exists():
        place.init(AUTHORITY_NAME, AUTHORITY_LIFETIME)
    place.issue_missing(subjects, LIFETIME)
    # The names are necessary: without them, certificates of a former authority would be issued again, too, and clients
    # may not have the new authority yet.
    soon, names = datetime.now(UTC) + SOON, {each.file_name for each in subjects}
    ending = [each.path.stem for each in place.entries() if each.certificate.not_valid_after_utc <= soon]
    if due := [name for name in ending if name in names]:
        place.rotate(LIFETIME, SOON, due)


def make_first_user(files: SecureFiles) -> None:
    """Make a password and the brokers' file of users, unless they exist. Raises ConfigError."""
    if make_password(files.password):
        files.users.unlink(missing_ok=True)
    if not files.users.exists():
        write_private(files.users, _users(password_in(files.password)))


def make_password(path: Path) -> bool:
    """Make a file with a new password, unless there is one, and return whether it was made. Raises ConfigError."""
    if path.exists():
        return False
    write_private(path, secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
    return True


def password_in(path: Path) -> str:
    """Return the password in a file. Raises ConfigError if there is none."""
    password = path.read_text().strip()
    if not password:
        raise config_error(f"{path} has no password", hint="write one into it, or delete the file for a new one")
    return password


def _users(password: str) -> str:
    """Return the file of the brokers' first user, with a credential for each mechanism."""
    credentials = [
        ScramCredential.of_password(mechanism, password, salt=os.urandom(SALT_BYTES), iterations=LEAST_ITERATIONS)
        for mechanism in MECHANISMS
    ]
    lines = [f'{mechanism} = "{each.text()}"' for mechanism, each in zip(MECHANISMS, credentials, strict=True)]
    return "\n".join([f"[{ADMIN}]", *lines, ""])


def profile(name: str, bootstrap: str, user: str, password: str, ca: str) -> str:
    """Return the profile by which a user logs in. `password` and `ca` are paths of files."""
    settings = {
        "bootstrap.servers": bootstrap,
        **LOGIN,
        "sasl.username": user,
        "sasl.password.file": password,
        "ssl.truststore.location": ca,
    }
    return "\n".join([f"[profiles.{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""])


def _toml(text: str) -> str:
    """Return the text as a string of TOML, which escapes quotes as JSON does."""
    return json.dumps(text, ensure_ascii=False)
