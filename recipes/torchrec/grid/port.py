"""A port for ranks that meet on it, which nobody else gets until then."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """A free port, on all addresses, which stays the caller's while this is open: it is bound and nobody listens.

    Linux gives a port that is bound to no one who asks for any; who names it may listen, where both set SO_REUSEADDR,
    as PyTorch's store does.
    """
    dual = socket.has_dualstack_ipv6()
    with socket.socket(socket.AF_INET6 if dual else socket.AF_INET) as holder:
        if dual:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]
