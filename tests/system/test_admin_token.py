"""The admin port with a token: what it tells whom, and what happens to the token's file meanwhile."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.process.admin_http import AdminHttp
from ottla_core.process.admin_token import AdminToken
from ottla_core.telemetry import Metrics

TOKEN = "f1e2d3c4b5a697887766554433221100"
OTHER = "0123456789abcdef0123456789abcdef"
REASON = "there is no metadata yet: etcd has not answered"


class Admin:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.why: str | None = None
        self.http = AdminHttp("127.0.0.1", 0, Metrics(), lambda: self.why, file)

    async def get(self, path: str, *headers: str) -> tuple[int, str]:
        """Send the request as it is, and return the status and all that came after the status line."""

        def ask() -> tuple[int, str]:
            with socket.create_connection(("127.0.0.1", self.http.port), timeout=5) as connection:
                lines = [f"GET {path} HTTP/1.0", *headers, "", ""]
                connection.sendall("\r\n".join(lines).encode("latin-1"))
                head, _, rest = b"".join(iter(lambda: connection.recv(1 << 16), b"")).partition(b"\r\n")
                return int(head.split()[1]), rest.decode()

        return await asyncio.to_thread(ask)


def write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    admin = Admin(write(tmp_path / "token", f"{TOKEN}\n"))
    await admin.http.start()
    yield admin
    await admin.http.stop()


@pytest.mark.parametrize(
    "header", [f"Authorization: Bearer {TOKEN}", f"authorization: bearer  {TOKEN} ", f"AUTHORIZATION: BEARER {TOKEN}"]
)
async def test_a_client_with_the_token_gets_everything(admin: Admin, header: str) -> None:
    status, text = await admin.get("/metrics", header)
    assert status == 200
    assert "process_cpu_seconds_total" in text
    admin.why = REASON
    status, text = await admin.get("/readyz", header)
    assert status == 503
    assert REASON in text
    assert (await admin.get("/nothing", header))[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Authorization:",),
        ("Authorization: Bearer",),
        (f"Authorization: {TOKEN}",),
        (f"Authorization: Basic {TOKEN}",),
        (f"Authorization: Bearer {OTHER}",),
        (f"Authorization: Bearer {TOKEN[:-1]}",),
        (f"Authorization: Bearer {TOKEN}0",),
        (f"Authorization: Bearer {TOKEN.upper()}",),
        ("Authorization: Bearer \xff\x80",),
        (f"X-Authorization: Bearer {TOKEN}",),
        (f"Authorization: Bearer {OTHER}", f"Authorization: Bearer {TOKEN}"),
    ],
)
async def test_others_get_the_status_of_the_probes_and_no_more(admin: Admin, headers: tuple[str, ...]) -> None:
    for path in ("/metrics", "/metrics?x", "/nothing", f"/metrics?token={TOKEN}"):
        status, text = await admin.get(path, *headers)
        assert (status, "WWW-Authenticate: Bearer" in text) == (401, True)
        assert "ottla_" not in text
        assert "process_cpu" not in text
    assert (await admin.get("/healthz", *headers))[0] == 200
    assert (await admin.get("/readyz", *headers))[0] == 200
    admin.why = REASON
    status, text = await admin.get("/readyz", *headers)
    assert status == 503
    assert text.endswith("\r\n\r\nnot ready\n")


async def test_a_new_token_in_the_file_counts_at_once_and_a_broken_file_leaves_the_last(
    admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    async def statuses() -> list[int]:
        return [(await admin.get("/metrics", f"Authorization: Bearer {token}"))[0] for token in (TOKEN, OTHER)]

    assert await statuses() == [200, 401]
    write(admin.file, OTHER)
    assert await statuses() == [401, 200]
    with caplog.at_level(logging.WARNING):
        for text in ("", "short", TOKEN):
            write(admin.file, text, 0o644)
            assert await statuses() == [401, 200]
        admin.file.unlink()
        assert await statuses() == [401, 200]
    problems = [record.getMessage() for record in caplog.records]
    assert len(problems) == len(set(problems)) == 2, "one for each cause: others can read it, and it is gone"
    assert TOKEN not in caplog.text
    write(admin.file, TOKEN)
    assert await statuses() == [200, 401]


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        (None, 0, "can't be read (No such file or directory)"),
        (TOKEN, 0o644, "can be read by other users (INVALID_CONFIG); run `chmod 600"),
        ("", 0o600, "is empty"),
        ("\n", 0o600, "is empty"),
        ("x" * 100_000, 0o600, "too large"),
        ("\udcff" * 20, 0o600, "is not UTF-8"),
        ("secret-of-15---", 0o600, "has no token of 16 or more letters"),
        (f"{TOKEN}\n{OTHER}\n", 0o600, "has no token of 16 or more letters"),
        (f"{TOKEN} {OTHER}", 0o600, "has no token of 16 or more letters"),
        ("é" * 32, 0o600, "has no token of 16 or more letters"),
    ],
)
async def test_a_service_does_not_start_without_a_usable_token(
    tmp_path: Path, text: str | None, mode: int, problem: str
) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_bytes(text.encode(errors="surrogateescape"))
        file.chmod(mode)
    with pytest.raises(OttlaError) as refused:
        await Admin(file).http.start()
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert problem in str(refused.value)
    assert "admin_token_file" in str(refused.value)
    assert not text or text.strip() == "" or text[:15] not in str(refused.value)


def test_a_file_of_roots_may_be_readable_by_its_group(tmp_path: Path) -> None:
    file = write(tmp_path / "token", TOKEN, 0o640)
    if file.stat().st_uid != 0:
        with pytest.raises(OttlaError, match="can be read by other users"):
            AdminToken(file)
        return
    assert AdminToken(file).is_in(f"Bearer {TOKEN}")
