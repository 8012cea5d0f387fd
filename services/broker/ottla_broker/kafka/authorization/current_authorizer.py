"""The authorizer of the ACLs that this broker knows, and the access of each connection by it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from ottla_broker.kafka.authorization.access import Access, LimitedAccess
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import ClusterImage
from ottla_core.event_loop.tasks import end_task
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.authorizer_settings import AuthorizerSettings

_FEW: Final = 1_000
"""An authorizer of this many ACLs is made within two milliseconds."""


class _Metadata(Protocol):
    @property
    def image(self) -> ClusterImage: ...


class _Waiting(Protocol):
    async def wake_all(self) -> None:
        """Have parked fetches look at their partitions again."""
        ...


class CurrentAuthorizer:
    """The authorizer of the latest ACLs, made once for each revision of them.

    If there are few ACLs, the first request that needs an authorizer makes it. If there are many, a thread begins to
    make it as soon as the broker learns of the ACLs, and the former authorizer decides until then. As in Kafka, a
    broker learns of an ACL shortly after it was created. The first authorizer is made before the listeners open, so no
    request waits for it.

    New ACLs wake parked fetches, because the former ACLs have decided about them.
    """

    def __init__(
        self, settings: AuthorizerSettings, metadata: _Metadata, threads: DiskThreads, fetches: _Waiting
    ) -> None:
        self._settings: Final = settings
        self._metadata: Final = metadata
        self._threads: Final = threads
        self._fetches: Final = fetches
        self._authorizer: Authorizer | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_running = False

    async def start(self) -> None:
        await self._make(self._metadata.image)
        self._is_running = True

    async def stop(self) -> None:
        self._is_running = False
        await end_task(self._renewing)

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Begin to follow the ACLs of the new image, if they are new."""
        if self._is_running and self._renewing is None and new.acls_revision != old.acls_revision:
            self._renewing = asyncio.create_task(self._renew(old.acls_revision), name="authorizer")

    def access(self, caller: Caller) -> Access:
        """Return what the client may do as of now."""
        return LimitedAccess(self._latest, caller.decisions.of(caller.principal, caller.client_host))

    def _latest(self) -> Authorizer:
        """Return the authorizer that decides now."""
        authorizer, image = self._authorizer, self._metadata.image
        if authorizer is None or (authorizer.revision != image.acls_revision and len(image.acls) <= _FEW):
            authorizer = self._authorizer = self._made(image)
        return authorizer

    async def _renew(self, revision: int) -> None:
        """Keep up with ACLs that are newer than `revision`."""
        try:
            while (image := self._metadata.image).acls_revision != revision:
                revision = image.acls_revision
                if self._latest().revision != revision:
                    await self._make(image)
                await self._fetches.wake_all()
        finally:
            self._renewing = None

    async def _make(self, image: ClusterImage) -> None:
        made = await self._threads.work(partial(self._made, image))
        if self._authorizer is None or self._authorizer.revision < made.revision:
            self._authorizer = made

    def _made(self, image: ClusterImage) -> Authorizer:
        return Authorizer(
            image.acls,
            revision=image.acls_revision,
            super_users=self._settings.super_users,
            allow_everyone_if_no_acl_found=self._settings.allow_everyone_if_no_acl_found,
        )
