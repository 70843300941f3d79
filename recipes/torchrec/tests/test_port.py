"""A reserved port: nobody gets it who asks for any, and the ranks' store listens on it."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grid.port import reserved  # noqa: E402

IP_LOCAL_PORT_RANGE = 51  # of Linux 6.3; not in Python's module


def any_port_of(port: int, *, reuse: bool) -> socket.socket:
    """A socket for which `port` is the only one that the kernel may choose."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
    try:
        one.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
    except OSError as error:
        assert error.errno == errno.ENOPROTOOPT
        pytest.skip("this kernel has no range of ports for a socket")
    return one


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("address", ["", "127.0.0.1"])
def test_who_asks_for_any_port_to_listen_gets_another(address: str, reuse: bool) -> None:
    with reserved() as port, any_port_of(port, reuse=reuse) as one, pytest.raises(OSError, match="in use"):
        one.bind((address, 0))
    with any_port_of(port, reuse=reuse) as one:  # given back, it is to be had
        one.bind((address, 0))
        assert one.getsockname()[1] == port


def test_who_asks_for_any_port_to_connect_gets_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with reserved() as port, any_port_of(port, reuse=False) as one, pytest.raises(OSError, match="assign"):
            one.connect(server.getsockname())
        with any_port_of(port, reuse=False) as one:
            one.connect(server.getsockname())
            assert one.getsockname()[1] == port


@pytest.mark.parametrize("libuv", [False, True])
def test_the_store_listens_on_it(libuv: bool) -> None:
    with reserved() as port:
        store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, use_libuv=libuv)
        other = dist.TCPStore("127.0.0.1", port, is_master=False, use_libuv=libuv)
        other.set("key", "value")
        assert store.get("key") == b"value"
