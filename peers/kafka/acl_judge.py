"""Kafka's own StandardAuthorizer, its checks of new ACLs and its filters, in a Java program that answers questions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from peers.kafka import jars
from peers.place import PeerError

_PROGRAM: Final = Path(__file__).parent / "AclJudge.java"
_NULL: Final = "<null>"

Word = str | int | None
"""A text or null, or the code of an enum."""


class KafkaAclJudge:
    """One Java process, which answers a question at a time.

    An ACL and a filter are seven words, in the order of Kafka's AclBinding: resource type, name, pattern type,
    principal, host, operation, permission. Raises PeerError where there is no JDK, or no jars.
    """

    def __init__(self) -> None:
        command = jars.program(_PROGRAM)
        self._process: Final = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def names(self, code: int) -> list[str]:
        """Return what the code means as a resource type, a pattern type, a permission type and an operation."""
        return self._ask(("names", code)).split()

    def load(self, acls: Sequence[Sequence[Word]], super_users: Sequence[str], *, allow_everyone: bool) -> None:
        """Load the ACLs and configs that the questions after this one are about."""
        head = ("load", ";".join(super_users), "true" if allow_everyone else "false", len(acls))
        self._ask(head, *acls)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        return self._ask(("decide", principal, host, operation, resource_type, name)) == "true"

    def decide_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        return self._ask(("decide_any", principal, host, operation, resource_type)) == "true"

    def operations_of(self, principal: str, host: str, resource_type: int, name: str) -> int:
        return int(self._ask(("operations_of", principal, host, resource_type, name)))

    def check(self, acl: Sequence[Word]) -> str:
        """Return the name of the error with which a new ACL is rejected, or NONE."""
        return self._ask(("check", *acl))

    def matches(self, acl_filter: Sequence[Word], acl: Sequence[Word]) -> bool:
        return self._ask(("matches", *acl_filter, *acl)) == "true"

    def _ask(self, *lines: Sequence[Word]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for words in lines:
            self._process.stdin.write("\t".join(_NULL if word is None else str(word) for word in words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if not answer:
            raise PeerError("the Java program has ended")
        return answer
