"""Containers by name: handed a signal, ended, removed; and those of a checkout, which a killed run may leave."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from grstack.run import Process

CHECKOUT = "grstack.checkout"  # on build containers: whose they are


class Containers:
    def __init__(self, client: Any, root: Path) -> None:
        self.client = client
        self.labels = {CHECKOUT: str(root)}

    def signal(self, name: str, process: Process, number: int) -> None:
        """Hands a signal to a container; where it is only being started, as soon as it runs."""
        while process.poll() is None:
            try:
                self.client.containers.get(name).kill(signal=number)
                return
            except Exception:  # not made yet, or not started
                time.sleep(0.1)

    def end(self, name: str) -> None:
        """Ends a container that may have ended already: politely first."""
        with contextlib.suppress(Exception):
            self.client.containers.get(name).stop(timeout=10)

    def remove(self, name: str) -> None:
        with contextlib.suppress(Exception):  # it may be gone already; the first error is the one to show
            self.client.containers.get(name).remove(force=True)

    def remove_leftovers(self) -> int:
        """Those that bear this checkout's label; returns how many there were."""
        labels = [f"{name}={value}" for name, value in self.labels.items()]
        left = self.client.containers.list(all=True, filters={"label": labels})
        for container in left:
            self.remove(container.name)
        return len(left)
