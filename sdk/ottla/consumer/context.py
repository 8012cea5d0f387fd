"""What all parts of one consumer share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.cluster import ClusterClient
from ottla.client.metadata_updater import MetadataUpdater
from ottla.consumer.fetcher import Fetcher
from ottla.machines.metadata import ClusterView
from ottla.machines.subscription import SubscriptionState


@dataclass(frozen=True)
class ConsumerContext:
    """What all parts share. Times are in seconds; every call to a broker may take up to `request_timeout_s`."""

    client_id: str
    subscription: SubscriptionState
    fetcher: Fetcher
    cluster: ClusterClient
    request_timeout_s: float
    metadata_max_age_s: float

    def start_updater(self, on_change: Callable[[ClusterView], None], *, all_topics: bool = False) -> MetadataUpdater:
        """Follow the cluster's metadata from now on, until the updater is closed."""
        return MetadataUpdater(
            self.cluster,
            name=self.client_id,
            max_age=self.metadata_max_age_s,
            timeout=self.request_timeout_s,
            on_change=on_change,
            all_topics=all_topics,
        )
