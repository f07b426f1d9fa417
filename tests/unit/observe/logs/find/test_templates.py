"""Lines that look like failures, and those that only talk of them."""

import pytest

from unstuck.model.logs import LogLine
from unstuck.observe.logs.find.templates import MOST_CLUSTERS, Clusters, looks_failed, template


@pytest.mark.parametrize(
    "body",
    ["ValueError: bad batch", "my.lib.CustomError", "storage: ERROR shard 3", "Segmentation fault"],
)
def test_a_failure_looks_like_one(body: str):
    assert looks_failed(body)


@pytest.mark.parametrize(
    "body", ["0 errors, training finished", "Error rate: 0.3", "errors=0 ERROR=none", "fine"]
)
def test_talk_about_failures_does_not(body: str):
    assert not looks_failed(body)


def test_what_varies_is_taken_out_of_a_template():
    one = template("ERROR shard 17 of /data/a/b.bin at 0x7f3a from 10.0.0.7")
    two = template("ERROR shard 4711 of /other/c.bin at 0x1 from 10.0.0.9")
    assert one == two == "ERROR shard <n> of <path> at <hex> from <ip>"


def test_clusters_count_and_stay_few():
    clusters = Clusters()
    for number in range(3):
        clusters.add(LogLine("f", number, "x", rank=number % 2), f"ERROR shard {number}")
    (cluster,) = clusters.found.values()
    assert (cluster.count, cluster.ranks, cluster.first.line) == (3, [0, 1], 0)
    for number in range(MOST_CLUSTERS + 5):
        clusters.add(LogLine("f", 1, "x"), "ERROR " + "x" * number)
    assert len(clusters.found) == MOST_CLUSTERS
