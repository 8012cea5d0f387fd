"""Consumer groups of unchanged Kafka clients: what each can do by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.compat.cells import chosen, each_mixed, each_story, opened
from tests.compat.clients import Listed
from tests.compat.group_stories import STORIES, Stage, mixed
from tests.compat.topics import Topics

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

AT_ONCE = 5
"""Stories that are told side by side: in each, most of the time is spent on waiting for the next heartbeat."""


class Told:
    """Every story of this run, begun when the first is asked for; each test waits for its own."""

    def __init__(self, cluster: Cluster, topics: Topics, pool: ThreadPoolExecutor, cells: list[tuple[str, Listed]]):
        self._cluster = cluster
        self._topics = topics
        self._stories: dict[tuple[str, str], Future[str]] = {
            (capability, listed.name): pool.submit(self._tell, capability, listed) for capability, listed in cells
        }

    def to_its_end_by(self, capability: str, listed: Listed) -> str:
        """Which client told it. Raises what went wrong."""
        return self._stories[capability, listed.name].result()

    def _tell(self, capability: str, listed: Listed) -> str:
        client = opened(listed)
        with Stage(self._cluster.bootstrap, self._topics) as stage:
            STORIES[capability](stage, client)
        return listed.name


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, cluster: Cluster, topics: Topics) -> Iterator[Told]:
    wanted = [item.callspec.params for item in request.session.items if _is_story(item)]  # type: ignore[attr-defined]  # pytest's, without types
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield Told(cluster, topics, pool, [(params["story"], params["listed"]) for params in wanted])
        pool.shutdown(cancel_futures=True)


def _is_story(item: pytest.Item) -> bool:
    return getattr(item, "function", None) is test_a_group


@each_story(
    {
        "share": pytest.mark.feature(63),
        "commit": pytest.mark.feature(76),
        "reset": pytest.mark.feature(46),
        "seek": pytest.mark.feature(54),
        "cooperative": pytest.mark.feature(70),
        "static": pytest.mark.rule(45),
    }
)
def test_a_group(told: Told, story: str, listed: Listed) -> None:
    assert told.to_its_end_by(story, listed) == listed.name


@pytest.fixture(scope="module")
def together(cluster: Cluster, topics: Topics) -> dict[str, list[int]] | Exception:
    """What each client of the mixed group has had, or why there is no such group."""
    try:
        clients = {listed.name: opened(listed) for listed in chosen()}
        with Stage(cluster.bootstrap, topics, partitions=2 * len(clients)) as stage:
            return mixed(stage, clients)
    except Exception as error:
        return error


@pytest.mark.feature(63)
@each_mixed
def test_a_group_of_all_clients(together: Any, listed: Listed) -> None:
    """Each has a share, every record is read once, and when one leaves the others go on."""
    if isinstance(together, Exception):
        raise together
    assert together[listed.name]
