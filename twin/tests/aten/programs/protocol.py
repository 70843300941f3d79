"""The two-phase protocol called directly. Prints {check: [status, error text]}."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p

import torch  # libopapi computes with the libtorch of this process

FLOAT, INT64, INT4, ND, FRACTAL_NZ = 0, 9, 29, 2, 29

torch.npu.set_device(0)
device = torch.zeros(64, device="npu:0")
opapi, acl = ctypes.CDLL("libopapi.so"), ctypes.CDLL("libascendcl.so")
opapi.aclCreateTensor.restype = c_void_p
opapi.aclCreateTensor.argtypes = [
    POINTER(c_int64),
    c_uint64,
    c_int,
    POINTER(c_int64),
    c_int64,
    c_int,
    POINTER(c_int64),
    c_uint64,
    c_void_p,
]
opapi.aclCreateScalar.restype = c_void_p
acl.aclGetRecentErrMsg.restype = c_char_p


def tensor(*shape: int, dtype: int = FLOAT, layout: int = ND, storage: int = 64, data: int | None = None) -> c_void_p:
    dims = (c_int64 * len(shape))(*shape)
    address = device.data_ptr() if data is None else data
    handle = opapi.aclCreateTensor(
        dims, len(shape), dtype, None, 0, layout, (c_int64 * 1)(storage), 1, c_void_p(address)
    )
    return c_void_p(handle)


def one() -> c_void_p:
    return c_void_p(opapi.aclCreateScalar(byref(ctypes.c_double(1)), 11))


def plan(name: str, *arguments: object) -> tuple[int, c_void_p]:
    size, executor = c_uint64(99), c_void_p()
    status = getattr(opapi, f"{name}GetWorkspaceSize")(*arguments, byref(size), byref(executor))
    return status, executor


def refusal(name: str, *arguments: object) -> list[object]:
    status, _ = plan(name, *arguments)
    return [status, (acl.aclGetRecentErrMsg() or b"").decode()]


def executed(name: str, *arguments: object) -> list[object]:
    status, executor = plan(name, *arguments)
    assert status == 0, status
    status = getattr(opapi, name)(None, c_uint64(0), executor, None)
    return [status or acl.aclrtSynchronizeStream(None), ""]


def copies_outlive_the_handles() -> list[object]:
    """The caller may destroy its handles as soon as phase one has returned."""
    device.fill_(2)
    torch.npu.synchronize()
    handles = [tensor(4), tensor(4)]
    status, executor = plan("aclnnMul", *handles, out := tensor(4))
    assert status == 0
    for handle in (*handles, out):
        opapi.aclDestroyTensor(handle)
    assert device.cpu()[0].item() == 2, "phase one touched the data"
    status = opapi.aclnnMul(None, c_uint64(0), executor, None) or acl.aclrtSynchronizeStream(None)
    return [status, str(device.cpu()[:5].tolist())]


def destroyed_handle() -> list[object]:
    handle, other, out = tensor(4), tensor(4), tensor(4)  # made before, or one would get the address
    opapi.aclDestroyTensor(handle)
    return refusal("aclnnMul", handle, other, out)


def destroyed_twice() -> list[object]:
    handle = one()
    return [
        [opapi.aclDestroyScalar(handle), opapi.aclDestroyScalar(handle)],
        (acl.aclGetRecentErrMsg() or b"").decode(),
    ]


def list_of_another_kind() -> list[object]:
    """aclnnCat takes a list of tensors; a list of scalars is as good a pointer to C."""
    opapi.aclCreateScalarList.restype = c_void_p
    scalars = c_void_p(opapi.aclCreateScalarList((c_void_p * 1)(one()), c_uint64(1)))
    return refusal("aclnnCat", scalars, c_int64(0), tensor(4))


def functions() -> list[list[str]]:
    """The table of libopapi, and those of its functions whose two phases the loader does not find."""
    opapi.twinAclnnFunctions.restype = c_char_p
    names = [line.split(" ")[0] for line in opapi.twinAclnnFunctions().decode().splitlines()]
    missing = [n for n in names for phase in (n, f"{n}GetWorkspaceSize") if not hasattr(opapi, phase)]
    return [names, missing]


CHECKS: dict[str, Callable[[], list[object]]] = {
    "null_input": lambda: refusal("aclnnAdd", None, tensor(4), one(), tensor(4)),
    "null_scalar": lambda: refusal("aclnnAdd", tensor(4), tensor(4), None, tensor(4)),
    "null_output": lambda: refusal("aclnnMul", tensor(4), tensor(4), None),
    "null_data": lambda: refusal("aclnnMul", tensor(4), tensor(4, data=0), tensor(4)),
    "unknown_dtype": lambda: refusal("aclnnMul", tensor(4, dtype=INT4), tensor(4), tensor(4)),
    "private_format": lambda: refusal("aclnnMul", tensor(4, layout=FRACTAL_NZ), tensor(4), tensor(4)),
    "beyond_storage": lambda: refusal("aclnnMul", tensor(4, storage=3), tensor(4), tensor(4)),
    "not_broadcastable": lambda: refusal("aclnnMul", tensor(2, 4), tensor(3), tensor(2, 4)),
    "wrong_output_shape": lambda: refusal("aclnnMul", tensor(4), tensor(4), tensor(5)),
    "inner_sizes": lambda: refusal("aclnnMatmul", tensor(2, 3), tensor(4, 2), tensor(2, 2), ctypes.c_int8(0)),
    "bad_dim": lambda: refusal("aclnnGather", tensor(2, 3), c_int64(2), tensor(2, 3, dtype=INT64), tensor(2, 3)),
    "cast_dtype": lambda: refusal("aclnnCast", tensor(4), c_int(INT64), tensor(4)),
    "kinds_exchanged": lambda: refusal("aclnnAdd", tensor(4), one(), tensor(4), tensor(4)),
    "handle_for_number": lambda: refusal("aclnnGather", tensor(2, 3), tensor(2), tensor(2, 3, dtype=INT64), tensor(2)),
    "number_for_handle": lambda: refusal("aclnnAdd", tensor(4), tensor(4), c_int64(1), tensor(4)),
    "too_few": lambda: refusal("aclnnMul", tensor(4), tensor(4)),
    "too_many": lambda: refusal("aclnnMul", tensor(4), tensor(4), tensor(4), tensor(4)),
    "no_memory": lambda: refusal("aclnnGeluBackwardV2", tensor(4), tensor(4), c_int64(4096), tensor(4)),
    "math_type": lambda: refusal("aclnnMm", tensor(2, 3), tensor(3, 2), tensor(2, 2), ctypes.c_int8(9)),
    "optional_of_another_kind": lambda: refusal(
        "aclnnBinaryCrossEntropy", tensor(4), tensor(4), one(), c_int64(0), tensor(4)
    ),
    "list_of_another_kind": list_of_another_kind,
    "destroyed_handle": destroyed_handle,
    "destroyed_twice": destroyed_twice,
    "matrices_of_integers": lambda: refusal(
        "aclnnMatmul", tensor(2, 3, dtype=INT64), tensor(3, 2), tensor(2, 2), ctypes.c_int8(0)
    ),
    "float_indices": lambda: refusal("aclnnEmbedding", tensor(4, 3), tensor(2), tensor(2, 3)),
    "float_truth": lambda: refusal("aclnnLtTensor", tensor(4), tensor(4), tensor(4)),
    "functions": functions,
    "zero_size_without_data": lambda: executed("aclnnMul", tensor(0, data=0), tensor(0, data=0), tensor(0, data=0)),
    "copies_outlive_the_handles": copies_outlive_the_handles,
}


if __name__ == "__main__":
    print(json.dumps({name: check() for name, check in CHECKS.items()}))
