"""Names and addresses by which ranks would not find each other are found."""

import socket

import pytest

from unstuck.model.health import Rating
from unstuck.observe.machine.naming import host_name, interfaces, ports


def unknown(name: str) -> list[str]:
    raise socket.gaierror(-2, "Name or service not known")


def loopback(name: str) -> list[str]:
    return ["127.0.1.1"]


def network(name: str) -> list[str]:
    return ["10.0.0.7"]


def test_a_name_that_nobody_knows_is_bad_and_the_line_for_etc_hosts_is_given() -> None:
    found = host_name("trainer-7", unknown)

    assert found.rating is Rating.BAD
    assert "trainer-7 cannot be resolved" in found.text
    assert "/etc/hosts: ADDRESS trainer-7" in found.fix


def test_a_loopback_address_is_bad_only_for_several_machines() -> None:
    assert host_name("a", loopback).rating is Rating.OK
    assert host_name("a", loopback, several=True).rating is Rating.BAD
    assert host_name("a", network, several=True).rating is Rating.OK


def test_a_name_of_digits_is_read_as_an_address() -> None:
    assert host_name("4128", network).rating is Rating.BAD


@pytest.mark.parametrize(
    ("value", "rating"),
    [("lo", Rating.OK), ("ib9", Rating.BAD), ("^lo,docker0", None), ("=lo", Rating.OK)],
)
def test_an_interface_that_a_variable_names_must_be_there(
    value: str, rating: Rating | None
) -> None:
    found = interfaces({"NCCL_SOCKET_IFNAME": value})
    chosen = next(check for check in found if check.name == "NCCL_SOCKET_IFNAME")

    assert rating is None or chosen.rating is rating


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        found = ports((port,))

    assert found.rating is Rating.WARNING
    assert str(port) in found.fix
    assert ports((port,)).rating is Rating.OK
