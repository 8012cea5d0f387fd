"""Which texts all implementations of SCRAM read alike."""

from __future__ import annotations

import pytest

from ottla_core.security.saslprep import is_prepared


@pytest.mark.parametrize("text", ["user", "p@ss w0rd!", "münchen", "密码", "אבג", ""])
def test_texts_that_all_brokers_read_alike(text: str) -> None:
    assert is_prepared(text)


@pytest.mark.parametrize(
    "text", ["I\u00adX", "\u00aa", "\u2168", "tab\t", "nul\0", "\u00a0", "\u0627a", "\u06271", "\ud800", "\ue000"]
)
def test_texts_that_sasl_prep_changes_or_rejects(text: str) -> None:
    assert not is_prepared(text)
