"""What log.cleaner.* of the cluster and of a broker come to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from images import image_of

from ottla_broker.compaction.settings import CleanerSettings, cleaner_settings
from ottla_core.cluster.image import ResourceConfigs


def test_a_broker_comes_before_the_cluster_and_kafkas_defaults_after_both() -> None:
    image = replace(
        image_of(),
        configs={
            ("broker", ""): ResourceConfigs({"log.cleaner.threads": "2", "log.cleaner.backoff.ms": "100"}),
            ("broker", "1"): ResourceConfigs({"log.cleaner.threads": "4"}),
        },
    )
    assert cleaner_settings(image_of(), 1) == CleanerSettings()
    assert cleaner_settings(image, 0) == CleanerSettings(threads=2, backoff_s=0.1, map_bytes=64 << 20)
    assert cleaner_settings(image, 1) == CleanerSettings(threads=4, backoff_s=0.1, map_bytes=32 << 20)


@pytest.mark.parametrize("threads", ["0", "1"])
def test_no_threads_that_an_older_release_has_stored_are_one(threads: str) -> None:
    """A division by them would end the cleaner for good."""
    image = replace(image_of(), configs={("broker", ""): ResourceConfigs({"log.cleaner.threads": threads})})
    assert cleaner_settings(image, 0) == CleanerSettings()
