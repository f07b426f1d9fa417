"""A group knows its own sockets: its connections, and nothing else of the process."""

import dist_scenes as scenes
from ranks import play


def test_a_group_knows_its_connections_and_no_others() -> None:
    found = play(3, scenes.sockets_of_groups)
    for rank in range(3):
        counts, foreign_alive, world_works = found[rank]
        assert counts["0"] == 2
        assert foreign_alive
        assert world_works == 3.0
    assert [found[rank][0]["1"] for rank in (0, 1)] == [1, 1]


def test_a_group_created_before_the_import_cannot_be_given_up() -> None:
    said = play(2, scenes.unknown_sockets)
    for rank in (0, 1):
        assert "created before unstuck.dist was imported" in said[rank]
