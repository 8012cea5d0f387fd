"""A cluster's first controller begins its term, and then gives the cluster its first configs."""

from __future__ import annotations

import pytest
from waiting import LIMIT_S

from ottla_controller.app import build
from ottla_controller.config import ControllerConfig
from ottla_controller.machines.login_secret import decide_login_secret
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.memory import MemoryStore


@pytest.mark.story("new-cluster-without-its-first-configs")
async def test_a_new_cluster_gets_its_first_configs_once() -> None:
    store = MemoryStore()
    follower = MetadataFollower(store, "c")
    follower.start()
    for node_id, term_count in ((0, 1), (1, 2)):
        value = str(node_id + 2)
        settings = ControllerConfig(
            node_id=node_id,
            cluster_id="c",
            port=0,
            admin_port=0,
            first_configs=(f"default.replication.factor={value}",),
        )
        controller = build(settings, store=store)
        await controller.start()
        image = await follower.wait_for(
            lambda image, term_count=term_count: len(image.terms) == term_count and not image.is_new, LIMIT_S
        )
        assert image.broker_configs() == {"default.replication.factor": "2"}
        await controller.stop()
    await follower.stop()
    await store.close()


def test_a_login_secret_is_decided_on_once() -> None:
    image = ClusterImage("c")
    decided = decide_login_secret(image, lambda: b"random")
    known = image.with_changes([write.change for write in decided.writes], 1)
    assert known.login_secret.value == b"random"
    assert not decide_login_secret(known, lambda: b"another").writes


async def test_a_cluster_gets_one_login_secret_whoever_controls_it() -> None:
    """Brokers derive false salts from it. With different ones, a client that asks two could tell who is a user."""
    store = MemoryStore()
    follower = MetadataFollower(store, "c")
    follower.start()
    secrets: set[bytes] = set()
    for node_id, term_count in ((0, 1), (1, 2)):
        controller = build(ControllerConfig(node_id=node_id, cluster_id="c", port=0, admin_port=0), store=store)
        await controller.start()
        image = await follower.wait_for(
            lambda image, term_count=term_count: len(image.terms) == term_count and bool(image.login_secret.value),
            LIMIT_S,
        )
        secrets.add(image.login_secret.value)
        assert repr(image.login_secret.value) not in repr(image)
        await controller.stop()
    assert [len(secret) for secret in secrets] == [32]
    await follower.stop()
    await store.close()
