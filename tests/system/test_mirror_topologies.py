"""Three sites: which copies come about, and that each event is written once from site to site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Any

import pytest
from mirrors import everything, running
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_mirror.flow import Flow
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings

Sites = Mapping[str, Cluster]


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with Cluster() as hub, Cluster() as north, Cluster() as south:
        yield {"hub": hub, "north": north, "south": south}


def flows(sites: Sites, topic: str, *pairs: tuple[str, str], **more: Any) -> MirrorSettings:
    """Each pair is a flow of the topics that begin so, and of their copies."""
    clusters = tuple(ClusterSettings(alias, (site.bootstrap,)) for alias, site in sites.items())
    patterns = (rf"(.*\.)?{topic}.*",)
    made = (FlowSettings(source, target, topics=patterns, heartbeats=False, **more) for source, target in pairs)
    return MirrorSettings(clusters, tuple(made))


def write(sites: Sites, topic: str, name: str, count: int) -> None:
    with ottla.Admin(sites[name].bootstrap) as admin:
        admin.topics.create(topic, partitions=2, if_exists="ok")
    sites[name].produce(topic, [f"{name} {n}" for n in range(count)], value="str")


def found(sites: Sites, name: str, topic: str) -> dict[str, Counter[str]]:
    """What lies in each topic of that name, or copy of it, in one of the sites."""
    with ottla.Admin(sites[name].bootstrap) as admin:
        names = [there.name for there in admin.topics.describe() if f".{there.name}".endswith(f".{topic}")]
    return {
        there: Counter(record.value.decode() for record in everything(sites[name], there) if record.value)
        for there in names
    }


def once(name: str, count: int) -> Counter[str]:
    return Counter(f"{name} {n}" for n in range(count))


def lags(flows: Iterable[Flow]) -> set[int | None]:
    """Records that are not copied yet, of each partition."""
    return {p.lag(flow.positions().get(p.source), 0).records for flow in flows for p in flow.partitions.values()}


@pytest.mark.feature(152, 156)
def test_spokes_are_gathered_in_the_hub_each_event_once(sites: Sites) -> None:
    pairs = (("north", "hub"), ("south", "hub"), ("north", "south"))  # north's reach the hub by their own way alone
    for site in ("north", "south", "hub"):
        write(sites, "spokes", site, 40)
    expected = {
        "hub": {
            "spokes": once("hub", 40), "north.spokes": once("north", 40), "south.spokes": once("south", 40)
        },
        "south": {"spokes": once("south", 40), "north.spokes": once("north", 40)},
        "north": {"spokes": once("north", 40)},
    }  # fmt: skip
    with running(flows(sites, "spokes", *pairs)):
        wait_until(lambda: {name: found(sites, name, "spokes") for name in expected} == expected)
        write(sites, "spokes-later", "south", 3)
        wait_until(lambda: found(sites, "hub", "spokes-later") == {"south.spokes-later": once("south", 3)})
        assert {name: found(sites, name, "spokes") for name in expected} == expected, "another look changes nothing"


@pytest.mark.feature(153, 156)
def test_sites_that_both_write_have_each_others_events_and_none_comes_back(sites: Sites) -> None:
    pairs = (("north", "south"), ("south", "north"))
    for site in ("north", "south"):
        write(sites, "both", site, 40)
    expected = {
        "north": {"both": once("north", 40), "south.both": once("south", 40)},
        "south": {"both": once("south", 40), "north.both": once("north", 40)},
    }
    with running(flows(sites, "both", *pairs)):
        wait_until(lambda: {name: found(sites, name, "both") for name in expected} == expected)
        for site, other in pairs:
            write(sites, "both-later", site, 3)
            wait_until(lambda at=other, by=site: f"{by}.both-later" in found(sites, at, "both-later"))
        assert {name: found(sites, name, "both") for name in expected} == expected, "another look changes nothing"
        readers = ottla.Consumer("both", "south.both", bootstrap=sites["north"].bootstrap, start="earliest", stop="end")
        assert len(list(readers)) == 80, "one reader has the events of both sites"


@pytest.mark.feature(153, 156)
def test_sites_that_write_to_one_topic_have_all_its_events_once(sites: Sites) -> None:
    """Each site has a flow to each other one, and no name says where a record comes from."""
    topic = "shared"
    for site in sites:
        write(sites, topic, site, 40)
    expected = {topic: once("hub", 40) + once("north", 40) + once("south", 40)}
    pairs = permutations(sites, 2)
    with running(flows(sites, topic, *pairs, policy="marked")) as running_flows:
        wait_until(lambda: [found(sites, site, topic) for site in sites] == [expected] * 3)
        write(sites, topic, "north", 3)
        expected[topic] += once("north", 3)
        wait_until(lambda: [found(sites, site, topic) for site in sites] == [expected] * 3)
        wait_until(lambda: lags(running_flows) == {0})
        assert [found(sites, site, topic) for site in sites] == [expected] * 3, "all is read, and nothing came back"
    for site in sites:
        own = [r for r in everything(sites[site], topic) if (r.value or b"").startswith(site.encode())]
        assert all(not r.headers for r in own), "what was written here has not been anywhere"


@pytest.mark.feature(152)
def test_a_chain_says_the_way_that_events_have_come(sites: Sites) -> None:
    write(sites, "chain", "north", 40)
    with running(flows(sites, "chain", ("north", "hub"), ("hub", "south"))):
        expected = {"north.chain": once("north", 40)}
        wait_until(lambda: found(sites, "hub", "chain") == expected)
        wait_until(lambda: found(sites, "south", "chain") == {"hub.north.chain": once("north", 40)})
