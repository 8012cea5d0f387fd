"""What one client writes, in every form, all read, and so does the SDK."""

from __future__ import annotations

import pytest
from tests.compat.cells import CODECS, each_reader, each_writer
from tests.compat.clients import Listed
from tests.compat.crossing import RECORDS, Crossing, untimed
from tests.compat.topics import Topics

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def crossing(cluster: Cluster, topics: Topics) -> Crossing:
    return Crossing(cluster, topics)


@each_writer()
def test_writes(crossing: Crossing, form: str, writer: Listed) -> None:
    """It writes all of them, and compressed where it is told to: not all clients say that they don't."""
    written = crossing.written(form, writer)
    assert len(written.offsets) == len(RECORDS[form])
    assert crossing.codecs(written) == {form if form in CODECS else "none"}


@each_reader()
def test_what_one_writes_another_reads(crossing: Crossing, form: str, reader: Listed, writer: Listed) -> None:
    got, wanted = crossing.read(form, reader, writer), RECORDS[form]
    if "timestamps" in writer.lacks:
        got, wanted = untimed(got), untimed(wanted)
    assert got == wanted
