"""The metrics of services, as a scrape sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ottla.testing import Cluster

Scraped = dict[tuple[str, str], float]


def samples(services: Iterable[Any]) -> Iterator[Sample]:
    """What each of a cluster's `brokers` or `group_coordinators` tells."""
    for service in services:
        assert service._app is not None
        port = service._app._components[0].port
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                yield from family.samples


def scraped(cluster: Cluster) -> Scraped:
    """What all brokers tell, added up: by the sample's name and its label, if it has one beside `le`."""
    found: Scraped = {}
    for sample in samples(cluster.brokers):
        label = next((value for name, value in sample.labels.items() if name in ("topic", "api")), "")
        found[sample.name, label] = found.get((sample.name, label), 0) + sample.value
    return found
