"""The private formats in memory: what npu_format_cast writes, against NumPy. Prints of each whether they are equal."""

import ctypes
import json

import numpy as np
import torch
import torch_npu

NC1HWC0, FRACTAL_Z, FRACTAL_NZ, NDC1HWC0, FRACTAL_Z_3D = 3, 4, 29, 32, 33


def memory(tensor: torch.Tensor, count: int) -> np.ndarray:
    torch.npu.synchronize()
    address = tensor.untyped_storage().data_ptr()  # the emulated device's memory is the host's
    return np.frombuffer(ctypes.string_at(address, count * 2), dtype=np.float16)


def padded(x: np.ndarray, *sizes: int) -> np.ndarray:
    return np.pad(x, [(0, size - old) for old, size in zip(x.shape, sizes, strict=True)])


def cast(layout: int, *shape: int) -> bool:
    x = torch.randn(shape).half()
    values = x.numpy()
    if layout == FRACTAL_NZ:
        blocks = padded(values, 3, 32, 48).reshape(3, 2, 16, 3, 16).transpose(0, 3, 1, 2, 4)
    elif layout == NC1HWC0:
        blocks = padded(values, 2, 32, 3, 4).reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2)
    elif layout == NDC1HWC0:
        blocks = padded(values, 2, 32, 2, 3, 4).reshape(2, 2, 16, 2, 3, 4).transpose(0, 3, 1, 4, 5, 2)
    elif layout == FRACTAL_Z_3D:
        blocks = padded(values, 32, 32, 2, 2, 3).reshape(2, 16, 2, 16, 2, 2, 3).transpose(4, 2, 5, 6, 0, 1, 3)
    else:
        blocks = padded(values, 32, 32, 2, 3).reshape(2, 16, 2, 16, 2, 3).transpose(2, 4, 5, 0, 1, 3)
    moved = torch_npu.npu_format_cast(x.npu(), layout)
    assert torch_npu.get_npu_format(moved) == layout
    same = np.array_equal(memory(moved, blocks.size), blocks.reshape(-1))
    return same and torch.equal(moved.cpu(), x)


if __name__ == "__main__":
    torch.manual_seed(1)
    print(
        json.dumps(
            {
                "FRACTAL_NZ": cast(FRACTAL_NZ, 3, 18, 35),
                "NC1HWC0": cast(NC1HWC0, 2, 20, 3, 4),
                "FRACTAL_Z": cast(FRACTAL_Z, 18, 20, 2, 3),
                "NDC1HWC0": cast(NDC1HWC0, 2, 20, 2, 3, 4),
                "FRACTAL_Z_3D": cast(FRACTAL_Z_3D, 18, 20, 2, 2, 3),
            }
        )
    )
