"""What a build needs of a machine. The doctor, the build's own check and the README state these figures."""

from __future__ import annotations

GIB = 2**30

MEMORY_NEEDED = 4 * GIB  # two compilers that include torch's headers
MEMORY_COMFORTABLE = 8 * GIB  # and a training process per emulated NPU: the smoke test peaks at 3.1 GiB

MEMORY_OF_A_SUITE = 6 * GIB  # `inv test` runs as many at once as fit; four processes that train take 2.1 GiB

# A first build on one disk: wheels 2.5, the engine's copy of them 2.5, environment 6, base and components 2
DISK_NEEDED = 15 * GIB
# of target cuda: wheels 4, environment 10, its packages parted into layers 5, image 10
DISK_NEEDED_CUDA = 30 * GIB
DISK_COMFORTABLE = 40 * GIB  # images of two versions and the engine's build cache
DISK_LEFT = 5 * GIB  # no step is started with less


def disk_needed(target: str) -> int:
    """Bytes of a first build."""
    return DISK_NEEDED_CUDA if target == "cuda" else DISK_NEEDED
