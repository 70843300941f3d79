"""Random bytes as values of any dtype, and the bytes of a result: moves are compared bit by bit."""

import numpy as np
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, torch.complex64]
SAME_WIDTH = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random bytes, so that NaN payloads, -0.0 and large integers occur; bool keeps to its two values."""
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    values = torch.empty(shape, dtype=dtype)
    flat = values.view(-1).view(SAME_WIDTH[dtype.itemsize]).numpy()
    flat[...] = np.frombuffer(rng.bytes(flat.nbytes), flat.dtype)
    return values


def bits(tensor: torch.Tensor) -> np.ndarray:
    """The bytes as integers: NumPy has no bfloat16, and NaN is to be compared by its payload."""
    plain = tensor.detach().cpu().contiguous()
    return plain.view(SAME_WIDTH[plain.dtype.itemsize]).numpy()
