"""The settings of a broker whose clients log in, and whose requests an authorizer checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from users import PASSWORDS, Users


def guarded_settings(
    folder: Path, super_users: str = "User:alice", passwords: Mapping[str, str] = PASSWORDS
) -> dict[str, object]:
    """Return them for the users with these passwords, whom a file in the folder has. A super user needs no ACL."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "kafka-listener-protocols": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl-credentials-file": Users(passwords).write(folder / "users.toml"),
        "authorizer-class-name": "StandardAuthorizer",
        "super-users": super_users,
    }
