"""The door to downloads: locked wheels into the cache, data sets into a folder. Every byte is checked by sha256."""

from grstack.fetch._cache import WheelCache
from grstack.fetch._data import fetch_data
from grstack.fetch._wheels import choose_build, fetch_wheels, known_build

__all__ = ["WheelCache", "choose_build", "fetch_data", "fetch_wheels", "known_build"]
