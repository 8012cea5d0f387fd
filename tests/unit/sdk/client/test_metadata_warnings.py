"""Why there is no metadata is logged once, and again after a while: a producer tries several times a second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from waiting import wait_until

from ottla.client import metadata_updater as under_test
from ottla.client.metadata_updater import MetadataUpdater
from ottla.errors import ConnectError, ErrorCode
from ottla_core.clock import SystemClock


@pytest.mark.story("one-warning-repeated-for-ever")
def test_an_error_that_stays_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = ["nothing listens"] * 4 + ["it is the Kafka port"] * 3
    tries: list[str] = []

    def fetch_metadata(*_: Any, **__: Any) -> Any:
        tries.append(errors[min(len(tries), len(errors) - 1)])
        raise ConnectError(ErrorCode.NETWORK_EXCEPTION, tries[-1])

    cluster: Any = SimpleNamespace(
        clock=SystemClock(), at_close=lambda close: None, fetch_metadata=fetch_metadata, wait=lambda seconds: None
    )
    monkeypatch.setattr(under_test, "Backoff", lambda **_: SimpleNamespace(next=lambda: 0.0, reset=lambda: None))
    updater = MetadataUpdater(cluster, name="x", max_age=60.0, timeout=1.0, on_change=lambda view: None)
    updater.refresh()
    wait_until(lambda: len(tries) >= len(errors))
    updater.close()
    assert caplog.text.count("can't fetch metadata: nothing listens") == 1
    assert caplog.text.count("can't fetch metadata: it is the Kafka port") == 1
