"""Makes the secret from which brokers derive the false salts of unknown users, once for a cluster.

If each broker had its own, a client that asks two brokers about a user would see whether the user exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, LoginSecret

LOGIN_SECRET_BYTES: Final = 32


def decide_login_secret(image: ClusterImage, random_bytes: Callable[[], bytes]) -> Decision[None]:
    """Make the secret if the cluster has none, because the cluster is new, or its metadata is that of an older release
    or a backup."""
    if image.login_secret.value:
        return Decision(None)
    change = Change(keys.LOGIN_SECRET, LoginSecret(random_bytes()))
    return Decision(None, (Write(change, (ReliedOn(keys.LOGIN_SECRET, create_revision=0),)),))
