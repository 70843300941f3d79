"""What a build needs of a machine. The doctor, the build's own check and the README state these figures."""

from __future__ import annotations

GIB = 2**30

MEMORY_NEEDED = 4 * GIB  # two compilers that include torch's headers
MEMORY_COMFORTABLE = 8 * GIB  # and a training process per emulated NPU: the smoke test peaks at 3.1 GiB

MEMORY_OF_A_SUITE = 6 * GIB  # `inv test` runs as many at once as fit; four processes that train take 2.1 GiB

# A first build of target npu on one disk, in GB as the engine counts them (`docker system df --verbose`): wheels 3.2,
# its copy of them 3.3, the packages 6.1 and, while they are unpacked, 3 more, base, builder and components 1.6; and
# DISK_LEFT when the last step begins. Of cpu the packages are 5.3.
DISK_NEEDED = 20 * GIB
# Worked out in the same way, not measured: 4.7, 4.5, 9.3 and for a time 4.9, 2.3: 26 GB at most
DISK_NEEDED_CUDA = 30 * GIB
DISK_COMFORTABLE = 40 * GIB  # images of two versions and the engine's build cache
DISK_LEFT = 5 * GIB  # no step is started with less


def disk_needed(target: str) -> int:
    """Bytes of a first build."""
    return DISK_NEEDED_CUDA if target == "cuda" else DISK_NEEDED
