"""The versions of Kafka's APIs that one broker serves, which of them a client chooses, and its cluster's features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.kafka.apis import AnyApi
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import ApiVersionsResponse


class Versions:
    """What a broker has said about its versions. A range that makes no sense counts as none.

    `features` are the levels that are finalized in the cluster, which all of its brokers have (KIP-584).
    """

    def __init__(
        self,
        ranges: Iterable[ApiVersionsResponse.ApiVersion],
        features: Iterable[ApiVersionsResponse.FinalizedFeatureKey] = (),
    ) -> None:
        self._served: Final = {
            each.api_key: range(max(0, each.min_version), each.max_version + 1)
            for each in ranges
            if each.min_version <= each.max_version and each.max_version >= 0
        }
        self.features: Final[Mapping[str, int]] = {each.name: each.max_version_level for each in features}

    def highest_common(self, api: AnyApi) -> int | None:
        """Return the highest version that both sides know, or None if there is none."""
        served = self._served.get(api.key)
        if served is None:
            return None
        highest = min(served[-1], api.versions[-1])
        return highest if highest >= max(served[0], api.versions[0]) else None

    def choose(self, api: AnyApi) -> int:
        """Return the highest version that both sides know. Raises OttlaError with UNSUPPORTED_VERSION."""
        version = self.highest_common(api)
        if version is not None:
            return version
        served = self._served.get(api.key)
        has = "does not serve it" if served is None else f"serves its versions {_spelled(served)}"
        knows = f"this client can't call {api.name}: it knows the versions {_spelled(api.versions)}"
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"{knows}, and the broker {has}", hint=api.hint)


def _spelled(versions: range) -> str:
    return f"{versions[0]} to {versions[-1]}"
