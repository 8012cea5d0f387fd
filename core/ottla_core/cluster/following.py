"""Following metadata as a component: there is an image when `start` returns."""

from __future__ import annotations

from typing import Final

from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import ErrorCode, OttlaError

FIRST_IMAGE_LIMIT_S: Final = 60.0


class Following:
    """Follows metadata, and closes `own_store` after the follower, which is the last to use it."""

    def __init__(self, follower: MetadataFollower, own_store: MetaStore | None) -> None:
        self._follower = follower
        self._own_store = own_store

    async def start(self) -> None:
        """Start following. Raises OttlaError if the store has not answered within a minute, or holds what can't be
        read."""
        self._follower.start()
        try:
            await self._until_first_image()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self._follower.stop()
        if self._own_store is not None:
            await self._own_store.close()

    async def _until_first_image(self) -> None:
        try:
            await self._follower.wait_for(lambda image: image.revision > 0, timeout=FIRST_IMAGE_LIMIT_S)
        except TimeoutError:
            trouble = f": {self._follower.trouble}" if self._follower.trouble else ""
            raise OttlaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"the metadata store has not responded within {FIRST_IMAGE_LIMIT_S:g} s{trouble}",
                hint="check that etcd is running and that its address is correct",
            ) from None
