"""Kafka's own SslPrincipalMapper, and Java's spelling of names in certificates, in a Java program."""

from __future__ import annotations

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from peers.kafka import jars

_PROGRAM: Final = Path(__file__).parent / "PrincipalJudge.java"
_LIMIT_S: Final = 120.0


def names(certificates: Sequence[bytes]) -> list[str]:
    """Return the names of the subjects of certificates in DER, each after `=`, or an exception's name after `!`."""
    return _answers([f"name\t{_word(certificate)}" for certificate in certificates])


def mapped(questions: Sequence[tuple[str, str]]) -> list[str]:
    """Return what the rules make of each name, after `=`, or an exception's name after `!`."""
    return _answers([f"map\t{_word(rules.encode())}\t{_word(name.encode())}" for rules, name in questions])


def _answers(questions: Sequence[str]) -> list[str]:
    """Raises PeerError where there is no JDK, or no jars."""
    command = jars.program(_PROGRAM)
    asked = "".join(f"{question}\n" for question in questions)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    return [b64decode(line).decode() for line in done.stdout.split()]


def _word(data: bytes) -> str:
    return b64encode(data).decode()
