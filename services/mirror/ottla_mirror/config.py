"""The settings of a mirror process: where it listens, and the file that says what it copies.

In the environment they are spelled OTTLA_MIRROR__<KEY>. `file` says what is copied (see `mirror_file`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from ottla_core.files.secret_file import NO_FILE


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    node_id: int = 0  # another one for each process that has the same flows
    file: str = "mirror.toml"  # file that defines what the mirror copies; see docs/operate/mirror.md
    host: str = "127.0.0.1"
    port: int = 9680  # 0 picks a free one
    admin_host: str = "127.0.0.1"
    admin_port: int = 9780
    admin_token_file: PurePath = NO_FILE
    insecure: bool = False
    advertised_host: str = ""  # where clients connect, or `host` if this is empty
    session_timeout_s: float = 15.0  # seconds until other mirrors take over from a mirror that died; at least 6
    internal_tls_certificate: PurePath = NO_FILE  # PEM file with this service's certificate for gRPC
    internal_tls_key: PurePath = NO_FILE  # PEM file with the certificate's private key
    internal_tls_ca: PurePath = NO_FILE  # PEM file with the authorities whose certificates other services must have
    log_level: str = "INFO"
