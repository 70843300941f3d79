"""The door to downloads: locked wheels into the cache, data sets into a folder.

Every byte is checked by hash, but for the data sets whose makers publish none: `not_verified` says which.
"""

from grstack.fetch._cache import WheelCache
from grstack.fetch._data import fetch_data
from grstack.fetch._files import not_verified
from grstack.fetch._wheels import choose_build, fetch_wheels, known_build

__all__ = ["WheelCache", "choose_build", "fetch_data", "fetch_wheels", "known_build", "not_verified"]
