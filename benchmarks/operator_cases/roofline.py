"""Plain loops over the bytes that an operator cannot do without: what the machine's memory allows beside a peer.

They are compiled with the system's g++ when they are first asked for. Threads are those of PyTorch's OpenMP: a second
runtime would have threads of its own, which keep the processors busy while PyTorch's want to run.
"""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import torch

from .cases import Call

SOURCE = Path(__file__).with_name("roofline.cpp")
COMPILE = ("g++", "-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-c")
LINK = ("g++", "-shared", f"-L{Path(torch.__file__).parent / 'lib'}", "-Wl,--no-as-needed", "-ltorch_cpu")


@functools.cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        compiled, built = Path(folder) / "roofline.o", Path(folder) / "roofline.so"
        subprocess.run([*COMPILE, str(SOURCE), "-o", str(compiled)], check=True)
        subprocess.run([*LINK, str(compiled), "-o", str(built)], check=True)
        return ctypes.CDLL(str(built))


def _pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def stretches(source: torch.Tensor, sources: torch.Tensor, lengths: torch.Tensor, result: torch.Tensor) -> Call:
    """Moves lengths[i] bytes from byte sources[i] of `source`, one stretch behind the other, into `result`."""
    move = _library().move_stretches
    targets = lengths.cumsum(0) - lengths
    count = ctypes.c_int64(lengths.numel())
    pointers = [_pointer(tensor) for tensor in (source, result, sources, targets, lengths)]
    kept = (source, result, sources, targets, lengths)

    def call() -> object:
        move(*pointers, count, ctypes.c_int64(torch.get_num_threads()))
        return kept

    return call


def rows(table: torch.Tensor, indices: torch.Tensor, width: int) -> Call:
    """Reads rows indices[i] of a table [E, width] of float32, a multiple of 16 wide, and adds them up."""
    read = _library().read_rows
    sources = (indices * width).contiguous()
    out = torch.zeros(256)
    count, columns = ctypes.c_int64(indices.numel()), ctypes.c_int64(width)

    def call() -> object:
        read(_pointer(table), _pointer(sources), count, columns, ctypes.c_int64(torch.get_num_threads()), _pointer(out))
        return out

    return call
