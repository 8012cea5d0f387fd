"""UUIDs as Kafka draws and spells them: topics, log directories (KIP-516, KIP-858)."""

from __future__ import annotations

import base64
import uuid


def random_uuid() -> bytes:
    """16 random bytes. Drawn again where their spelling begins with `-`: a command line would read it as an option."""
    while spelled(raw := uuid.uuid4().bytes).startswith("-"):
        pass
    return raw


def spelled(raw: bytes) -> str:
    """16 bytes in 22 characters: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
