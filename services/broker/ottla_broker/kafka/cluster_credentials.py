"""The credentials by which clients may log in: those of the cluster's users, and those in a broker's own file.

The file is for the first users, who log in before the cluster has any, and create the others. If both have a
credential, that of the cluster counts, so a password that was changed in the cluster no longer works in the file.
"""

from __future__ import annotations

from typing import Final

from ottla_core.cluster.follower import MetadataFollower
from ottla_core.security.credentials import Credentials
from ottla_core.security.scram import Mechanism, ScramCredential


class ClusterCredentials:
    def __init__(self, metadata: MetadataFollower, file: Credentials) -> None:
        self._metadata: Final = metadata
        self._file: Final = file

    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        return self._metadata.image.scram.get((user, mechanism)) or self._file.find(user, mechanism)
