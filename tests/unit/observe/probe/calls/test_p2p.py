"""Sends and receives between two real ranks: counted apart, seen while they wait."""

from children import until
from pairs import Pair


def test_sends_do_not_count_as_collectives(pair: Pair):
    pair.settle()
    before = [pair.done(0), pair.done(1)]
    issued = pair.page(0).report["p2p_issued"]
    pair.both("dist.all_reduce(torch.ones(4)) and None")
    pair.ranks[0].tell("[dist.send(torch.ones(2), 1) for _ in range(3)] and None")
    pair.ranks[1].do("[dist.recv(torch.ones(2), 0) for _ in range(3)] and None")
    pair.ranks[0].answer()
    pair.both("dist.all_reduce(torch.ones(4)) and None")

    until(lambda: pair.page(0).report["p2p_issued"] == issued + 3)
    for rank in (0, 1):
        until(lambda rank=rank: pair.done(rank) == before[rank] + 2)
        until(lambda rank=rank: pair.page(rank).report["p2p"] == [])


def test_receive_that_waits_is_seen_until_its_send_comes(pair: Pair):
    pair.ranks[1].tell("dist.recv(torch.ones(2), 0, tag=5)")
    ((kind, group, peer, ordinal, tag, _),) = until(lambda: pair.page(1).report["p2p"])
    assert (kind, group, peer, tag) == ("recv", "0", 0, 5)
    assert ordinal >= 1
    pair.ranks[0].do("dist.send(torch.ones(2), 1, tag=5)")
    assert pair.ranks[1].answer() == 0
    until(lambda: pair.page(1).report["p2p"] == [])


def test_receive_from_anybody_names_no_peer(pair: Pair):
    pair.ranks[1].tell("dist.recv(torch.ones(2))")
    ((kind, _, peer, *_),) = until(lambda: pair.page(1).report["p2p"])
    assert (kind, peer) == ("recv", -1)
    pair.ranks[0].do("dist.send(torch.ones(2), 1)")
    assert pair.ranks[1].answer() == 0
    until(lambda: pair.page(1).report["p2p"] == [])


def test_peers_of_a_subgroup_are_named_by_their_global_rank(pair: Pair):
    pair.both("turned = dist.new_group([1, 0], use_local_synchronization=False)")
    pair.ranks[0].tell("dist.recv(torch.ones(2), 1, group=turned)")
    ((_, group, peer, *_),) = until(lambda: pair.page(0).report["p2p"])
    assert group != "0"
    assert peer == 1
    pair.ranks[1].do("dist.send(torch.ones(2), 0, group=turned)")
    pair.ranks[0].answer()
