"""Redis of the secured containers serves nobody without the password that is handed out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis
from redis_server import RedisServer

from ottla_stack.container_keys import ContainerKeys
from ottla_stack.secure_files import SecureFiles


def test_redis_serves_those_who_have_the_password(tmp_path: Path) -> None:
    handed_out = tmp_path / "run"
    for name in ("broker-0", "client", "redis"):
        (handed_out / name).mkdir(parents=True)
    files = SecureFiles(tmp_path / "security")
    keys = ContainerKeys(files, handed_out, "broker-0:19092", "localhost:9092", group_of=lambda _: os.getgid())
    keys.make_missing()
    keys.hand_out()
    password = (handed_out / "client" / "redis.password").read_text().strip()
    with RedisServer(tmp_path, config=handed_out / "redis" / "redis.conf", password=password) as server:
        assert server.client.set("key", "value")
        for wrong in (None, f"{password}x"):
            with (
                redis.Redis.from_url(server.url, password=wrong) as stranger,
                pytest.raises(redis.RedisError) as refused,
            ):
                stranger.get("key")
            assert isinstance(refused.value, redis.AuthenticationError)
