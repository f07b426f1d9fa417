"""Addresses as people write them."""

from unstuck.show.addresses import parse_address


def test_brackets_of_ipv6_are_dropped():
    assert parse_address("[::1]:80", "--listen") == ("::1", 80)
    assert parse_address("0.0.0.0:9099", "--listen") == ("0.0.0.0", 9099)
