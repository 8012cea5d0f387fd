"""A kind of cluster that the suite runs with: a version of Apache Kafka, and the protection of its listener."""

from __future__ import annotations

from typing import Final, NamedTuple

from peers.kafka import jars

PLAINTEXT: Final = "PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"


class Kind(NamedTuple):
    """It is written as its version, and with a login as `version+SASL_SSL`. A version has two numbers."""

    version: str
    listener: str = PLAINTEXT

    def __str__(self) -> str:
        return self.version if self.listener == PLAINTEXT else f"{self.version}+{self.listener}"

    @property
    def logs_in(self) -> bool:
        return self.listener == SASL_SSL

    @property
    def release(self) -> str:
        """The whole version, as its jars have it."""
        return _RELEASES[self.version]

    @property
    def transaction_version(self) -> int:
        """The version of transactions that a new cluster of this version finalizes."""
        return 2 if self.version.startswith("4") else 0


_RELEASES: Final = {"4.4": jars.VERSION, "3.9": "3.9.1"}
KINDS: Final = {str(kind): kind for kind in (Kind(v, at) for v in _RELEASES for at in (PLAINTEXT, SASL_SSL))}
