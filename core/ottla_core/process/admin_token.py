"""Checks the token that a client of the admin port has to send, as `Authorization: Bearer TOKEN` (RFC 6750)."""

from __future__ import annotations

import logging
import re
from pathlib import PurePath
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.secret_file import read_secret
from ottla_core.security.secret import Secret

_log = logging.getLogger(__name__)

_SETTING: Final = "admin_token_file"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*", re.ASCII)
_SCHEME: Final = "bearer"


class AdminToken:
    """Compares what clients send with the token in a file.

    The file is read for every request, so a new token counts as soon as it is in the file. While the file can't be
    read, the last token counts. Raises INVALID_CONFIG if the file has no valid token at the start.
    """

    def __init__(self, path: PurePath) -> None:
        self._path: Final = path
        self._token = _read(path)
        self._trouble = ""

    def is_in(self, authorization: str | None) -> bool:
        """Return whether the header has the token. It is compared in constant time."""
        scheme, _, sent = (authorization or "").partition(" ")
        return scheme.lower() == _SCHEME and Secret(sent.strip()) == self._current()

    def _current(self) -> Secret:
        try:
            self._token, self._trouble = _read(self._path), ""
        except OttlaError as error:
            if str(error) != self._trouble:
                _log.warning("the admin port keeps its last token: %s", error)
            self._trouble = str(error)
        return self._token


def _read(path: PurePath) -> Secret:
    token = read_secret(_SETTING, path)
    if not _TOKEN.fullmatch(token.reveal()):
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"the file {path} of {_SETTING} has no token of 16 or more letters, digits and -._~+/",
            hint="write one, for example with `openssl rand -hex 32`",
        )
    return token
