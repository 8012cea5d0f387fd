"""The metrics of a cluster's brokers, as a scrape sees them."""

from __future__ import annotations

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from ottla.testing import Cluster

Scraped = dict[tuple[str, str], float]


def scraped(cluster: Cluster) -> Scraped:
    """What all brokers tell, added up: by the sample's name and its label, if it has one beside `le`."""
    found: Scraped = {}
    for broker in cluster.brokers:
        assert broker._app is not None
        port = broker._app._components[0].port  # type: ignore[attr-defined]  # the component with a port
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    label = next((value for name, value in sample.labels.items() if name in ("topic", "api")), "")
                    found[sample.name, label] = found.get((sample.name, label), 0) + sample.value
    return found
