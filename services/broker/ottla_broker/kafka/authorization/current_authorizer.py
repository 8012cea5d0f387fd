"""The authorizer of the ACLs that this broker knows, and the access of each connection by it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from ottla_broker.kafka.authorization.access import Access, LimitedAccess
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import ClusterImage
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.authorizer_settings import AuthorizerSettings

_FEW: Final = 1_000
"""An authorizer of this many ACLs is made within two milliseconds."""


class _Metadata(Protocol):
    @property
    def image(self) -> ClusterImage: ...


class CurrentAuthorizer:
    """The authorizer of the latest ACLs, made once for each revision of them, by the first request that needs it.

    While one of many ACLs is made in a thread, the former one decides. As in Kafka, a broker learns of an ACL shortly
    after it was created. The first one is made before the listeners open, so no request waits for it.
    """

    def __init__(self, settings: AuthorizerSettings, metadata: _Metadata, threads: DiskThreads) -> None:
        self._settings: Final = settings
        self._metadata: Final = metadata
        self._threads: Final = threads
        self._authorizer: Authorizer | None = None
        self._making: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._make(self._metadata.image)

    async def stop(self) -> None:
        if self._making is not None:
            self._making.cancel()

    def access(self, caller: Caller) -> Access:
        """Return what the client may do as of now."""
        authorizer, image = self._authorizer, self._metadata.image
        if authorizer is None or authorizer.revision != image.acls_revision:
            authorizer = self._renewed(image)
        return LimitedAccess(authorizer, caller.decisions.of(caller.principal, caller.client_host))

    def _renewed(self, image: ClusterImage) -> Authorizer:
        if self._authorizer is None or len(image.acls) <= _FEW:
            self._authorizer = self._made(image)
        elif self._making is None:
            self._making = asyncio.create_task(self._make(image), name="authorizer")
        return self._authorizer

    async def _make(self, image: ClusterImage) -> None:
        try:
            authorizer = await self._threads.work(partial(self._made, image))
            if self._metadata.image.acls_revision >= authorizer.revision:
                self._authorizer = authorizer
        finally:
            self._making = None

    def _made(self, image: ClusterImage) -> Authorizer:
        return Authorizer(
            image.acls,
            revision=image.acls_revision,
            super_users=self._settings.super_users,
            allow_everyone_if_no_acl_found=self._settings.allow_everyone_if_no_acl_found,
        )
