"""libnnopbase: the handles of the aclnn protocol."""

from __future__ import annotations

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin

PRELUDE = """
from acl import *
base = ctypes.CDLL("libnnopbase.so")
def longs(*values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)
def make(dims, strides, offset, storage, kind=0, data=0x1000):
    base.aclCreateTensor.restype = ctypes.c_void_p
    u64, i64 = ctypes.c_uint64, ctypes.c_int64
    return base.aclCreateTensor(longs(*dims), u64(len(dims)), kind, strides and longs(*strides), i64(offset), 2,
                                longs(*storage), u64(len(storage)), ctypes.c_void_p(data))
def read(function, tensor):
    values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    assert getattr(base, function)(ctypes.c_void_p(tensor), ctypes.byref(values), ctypes.byref(count)) == 0
    return values[: count.value]
"""


def test_a_tensor_gives_back_what_it_was_made_of(scenario: Scenario) -> None:
    scenario(
        PRELUDE
        + """
t = make((2, 3, 4), None, 5, (40,), kind=27)
assert read("aclGetViewShape", t) == [2, 3, 4]
assert read("aclGetViewStrides", t) == [12, 4, 1]
assert read("aclGetStorageShape", t) == [40]
offset, kind, form, address = ctypes.c_int64(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
for function, out in {"aclGetViewOffset": offset, "aclGetDataType": kind, "aclGetFormat": form,
                      "aclGetRawTensorAddr": address}.items():
    assert getattr(base, function)(ctypes.c_void_p(t), ctypes.byref(out)) == 0
    assert getattr(base, function)(None, ctypes.byref(out)) == 161001
assert (offset.value, kind.value, form.value, address.value) == (5, 27, 2, 0x1000)
view = make((4, 2), (1, 4), 0, (8,))
assert read("aclGetViewStrides", view) == [1, 4]
assert read("aclGetViewShape", make((), None, 0, ())) == []
assert make((2,), None, 0, (2,), kind=35) is None and "dataType=35" in message()
for tensor in (t, view, None):
    assert base.aclDestroyTensor(ctypes.c_void_p(tensor)) == 0
"""
    )


def test_lists_own_their_members(scenario: Scenario) -> None:
    scenario(
        PRELUDE
        + """
members = (ctypes.c_void_p * 3)(*[make((1,), None, 0, (1,)) for _ in range(3)])
base.aclCreateTensorList.restype = ctypes.c_void_p
tensors = ctypes.c_void_p(base.aclCreateTensorList(members, ctypes.c_uint64(3)))
size = ctypes.c_uint64()
assert base.aclGetTensorListSize(tensors, ctypes.byref(size)) == 0 and size.value == 3
assert base.aclDestroyTensorList(tensors) == 0 and base.aclDestroyTensorList(None) == 0
base.aclCreateIntArray.restype = ctypes.c_void_p
array = ctypes.c_void_p(base.aclCreateIntArray(longs(4, 5), ctypes.c_uint64(2)))
assert base.aclGetIntArraySize(array, ctypes.byref(size)) == 0 and size.value == 2
assert base.aclDestroyIntArray(array) == 0 and base.aclDestroyIntArray(None) == 0
assert base.twinRunExecutor(None, None, ctypes.c_uint64(0), None) == 561103
for name in ("PTAGetExecCache", "PTAFindExecCache", "InitPTACacheThreadLocal"):
    assert not hasattr(base, name), name
"""
    )
