"""UUIDs as Kafka draws and spells them: for topics and log directories (KIP-516, KIP-858)."""

from __future__ import annotations

import base64
import uuid


def random_uuid() -> bytes:
    """Return 16 random bytes. They are drawn again if their spelling begins with `-`, because a command line would read
    it as an option."""
    while spelled(raw := uuid.uuid4().bytes).startswith("-"):
        pass
    return raw


def spelled(raw: bytes) -> str:
    """Return 16 bytes in 22 characters: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
