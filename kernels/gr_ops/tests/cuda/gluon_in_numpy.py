"""Gluon has no interpreter: what the functions of the relative bias on Hopper calculate, in NumPy.

`modules()` imports gr_ops.cuda.hopper.relative and table_sums with a Gluon of whole tensors: layouts mean nothing, a
lane is a column, memory is bytes between whose ends and on whose alignment every access is checked.
"""

import importlib
import sys
import types

import numpy as np

SIZES = {"int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4}
NUMPY = {**{name: np.dtype(name) for name in SIZES if name != "bfloat16"}, "bfloat16": np.dtype("float32")}
_memory: list[np.ndarray] = []


def bfloat16(values: np.ndarray) -> np.ndarray:
    """float32, rounded to the nearest."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def memory(array: np.ndarray) -> int:
    """The address of an array that kernels may read and write."""
    _memory.append(array.reshape(-1).view(np.uint8))
    return array.ctypes.data


class Tensor:
    def __init__(self, values, dtype):
        self.dtype = dtype
        self.values = np.asarray(values).astype(NUMPY.get(dtype, np.dtype(bool)), copy=False)
        self.type = types.SimpleNamespace(layout=None)

    def to(self, dtype, bitcast=False):
        if isinstance(dtype, tuple):
            return Pointer(self.values, dtype[1])
        if bitcast:
            return Tensor(np.ascontiguousarray(self.values).view(NUMPY[dtype]), dtype)
        values = self.values.astype(np.float32) if dtype == "bfloat16" else self.values
        return Tensor(bfloat16(values) if dtype == "bfloat16" else values.astype(NUMPY[dtype]), dtype)

    def __bool__(self):
        return bool(self.values)

    def __index__(self):
        return int(self.values)

    def __getitem__(self, key):
        return Tensor(self.values[key], self.dtype)


class Pointer:
    def __init__(self, address, dtype):
        self.address, self.dtype = np.asarray(address, dtype=np.int64), dtype

    def to(self, dtype, bitcast=False):
        return Tensor(self.address, dtype) if dtype == "int64" else Pointer(self.address, dtype[1])

    def __add__(self, count):
        return Pointer(self.address + np.asarray(values_of(count), dtype=np.int64) * SIZES[self.dtype], self.dtype)

    def __sub__(self, count):
        return self + -count


def values_of(x):
    return x.values if isinstance(x, Tensor) else x


def _kind(a, b):
    kinds = [x.dtype for x in (a, b) if isinstance(x, Tensor)]
    ranks = ["bool", *SIZES]
    floats = [isinstance(x, float) for x in (a, b)]
    return "float32" if any(floats) and kinds in ([], ["float32"]) else max(kinds, key=ranks.index)


def _operator(name, function, result=None):
    def apply(a, b):
        if isinstance(a, Tensor) and isinstance(b, Pointer):
            return b + a
        return Tensor(function(values_of(a), values_of(b)), result or _kind(a, b))

    setattr(Tensor, f"__{name}__", apply)
    setattr(Tensor, f"__r{name}__", lambda a, b: apply(b, a))


for _name, _function in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "rshift": np.right_shift,
    "lshift": np.left_shift,
}.items():
    _operator(_name, _function)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _operator(
        _name,
        getattr(
            np,
            {
                "lt": "less",
                "le": "less_equal",
                "gt": "greater",
                "ge": "greater_equal",
                "eq": "equal",
                "ne": "not_equal",
            }[_name],
        ),
        "bool",
    )


def _places(pointer, mask):
    size = SIZES[pointer.dtype]
    addresses = pointer.address if mask is None else pointer.address[np.broadcast_to(mask, pointer.address.shape)]
    assert not (addresses % size).any(), "not aligned"
    addresses = np.atleast_1d(addresses)
    if not addresses.size:
        return None, None
    for block in _memory:
        start = block.ctypes.data
        if start <= addresses.min() and addresses.max() + size <= start + block.size:
            raw = np.uint16 if pointer.dtype == "bfloat16" else NUMPY[pointer.dtype]
            return block[: block.size // size * size].view(raw), (addresses - start) // size
    raise AssertionError("outside of memory")


def load(pointer):
    block, places = _places(pointer, None)
    return Tensor(block[places].reshape(pointer.address.shape), pointer.dtype)


def store(pointer, values, mask=None):
    shape = pointer.address.shape
    block, places = _places(pointer, None if mask is None else mask.values)
    if block is not None:
        numbers = np.broadcast_to(values.values, shape)
        numbers = numbers if mask is None else numbers[np.broadcast_to(mask.values, shape)]
        if pointer.dtype == "bfloat16":
            numbers = (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)
        block[places] = numbers.reshape(-1)


def atomic_add(pointer, values, mask=None, sem=None):
    shape = np.broadcast_shapes(pointer.address.shape, values.values.shape)
    pointer = Pointer(np.broadcast_to(pointer.address, shape), pointer.dtype)
    chosen = None if mask is None else np.broadcast_to(mask.values, shape)
    block, places = _places(pointer, chosen)
    if block is not None:
        numbers = np.broadcast_to(values.values, shape)
        np.add.at(block, places.reshape(-1), (numbers if chosen is None else numbers[chosen]).reshape(-1))


def _product(upper_a, lower_a, upper_b, lower_b, factor, upper, lower):
    """mma.m16n8k16 of 8 x 8 blocks, [warps, 8, 8]; both halves of the second operand are one block, by columns."""

    def rows(a, b, total):
        return Tensor(np.einsum("wrk,wnk->wrn", a + b, factor.values) + total.values, "float32")

    return rows(upper_a.values, upper_b.values, upper), rows(lower_a.values, lower_b.values, lower)


def _add_four(address, upper, lower):
    """Of each thread two numbers of the one and two of the other, at the address of its first one."""
    assert (address.values % 16 == 0).all(), "not aligned"
    assert (address.values[..., ::2] == address.values[..., 1::2]).all(), "a thread has two addresses"
    for number, x in ((0, upper), (2, lower)):
        step = 4 * (np.arange(8) % 2 + number)
        atomic_add(Pointer(address.values + step, "float32"), x)


def inline_asm_elementwise(asm, constraints, args, **_):
    if "mma.sync.aligned.m16n8k16.row.col.f32.bf16" in asm:
        return _product(*args)
    if "red.relaxed.gpu.global.add.v4.f32" in asm:
        return _add_four(*args)
    assert "setp.ge.s32 p, $2, $3; mov.b32 $0, $1; @p add.f32 $0, $1, $4" in asm
    total, left, right, more = (x.values for x in args)
    return Tensor(np.where(left >= right, total + more, total), "float32")


class Shared:
    """[rows, columns] of bfloat16."""

    dtype = "bfloat16"

    def __init__(self, values):
        self.values = bfloat16(values)

    def load(self, layout):
        return Tensor(self.values, self.dtype)

    def slice(self, start, size, axis):
        assert axis == 0
        return Shared(self.values[start : start + size])

    def _reinterpret(self, dtype, shape, layout):
        words = (np.ascontiguousarray(self.values).view(np.uint32) >> 16).astype(np.uint16).view(np.int32)
        assert words.shape == tuple(shape)
        return types.SimpleNamespace(load=lambda layout: Tensor(words, dtype))


def _struct(cls):
    names = tuple(cls.__annotations__)

    def __init__(self, *values):  # noqa: N807 (it becomes the method of that name)
        for name, value in zip(names, values, strict=True):
            setattr(self, name, value)

    cls.__init__ = __init__
    return cls


def _gl():
    gl = types.ModuleType("gl")
    for name in SIZES:
        setattr(gl, name, name)
    layout = type("Layout", (), {"__init__": lambda self, *_, **__: None, "get_default_for": lambda *_: None})
    gl.BlockedLayout = gl.SliceLayout = gl.NVMMASharedLayout = gl.DistributedLinearLayout = layout
    gl.shared_memory_descriptor = gl.tensor = Tensor
    gl.constexpr = lambda x: x
    gl.pointer_type = lambda dtype: ("pointer", dtype)
    gl.arange = lambda start, end, layout: Tensor(np.arange(start, end), "int32")
    gl.zeros = lambda shape, dtype, layout: Tensor(np.zeros(shape), dtype)
    gl.zeros_like = lambda x: Tensor(np.zeros_like(x.values), x.dtype)
    gl.to_tensor = lambda x: x if isinstance(x, Tensor) else Tensor(x, "int32")
    gl.where = lambda c, a, b: Tensor(np.where(c.values, values_of(a), values_of(b)), _kind(a, b))
    gl.minimum = lambda a, b: Tensor(np.minimum(values_of(a), values_of(b)), _kind(a, b))
    gl.maximum = lambda a, b: Tensor(np.maximum(values_of(a), values_of(b)), _kind(a, b))
    gl.sum = lambda x, axis: Tensor(x.values.sum(axis, dtype=np.float32), "float32")
    gl.join = lambda a, b: Tensor(np.stack(np.broadcast_arrays(a.values, b.values), -1), a.dtype)
    gl.split = lambda x: (Tensor(x.values[..., 0], x.dtype), Tensor(x.values[..., 1], x.dtype))
    gl.permute = lambda x, axes: Tensor(x.values.transpose(axes), x.dtype)
    gl.reshape = lambda x, shape: Tensor(x.values.reshape(shape), x.dtype)
    gl.convert_layout = lambda x, layout, assert_trivial=False: x
    gl.multiple_of = lambda x, values: x
    gl.static_range = range
    gl.load, gl.store, gl.atomic_add, gl.inline_asm_elementwise = load, store, atomic_add, inline_asm_elementwise
    return gl


def _bucket_of(seconds, cells):
    at = np.maximum(seconds.values, 1).astype(np.float32)
    cell = load(cells + Tensor((at.view(np.int32) >> 20) - 1016, "int32")).values
    edge = (cell >> 32).astype(np.int32).view(np.float32)
    return Tensor((cell & 65535).astype(np.int32) + (at >= edge), "int32")


def modules():
    """relative and table_sums."""
    gluon = types.ModuleType("triton.experimental.gluon")
    gluon.jit = gluon.constexpr_function = lambda function: function
    gluon.language = _gl()
    structs = types.ModuleType("gr_ops.cuda.hopper.structs")
    structs.struct = _struct
    stand_ins = {
        "triton.experimental": types.ModuleType("triton.experimental"),
        "triton.experimental.gluon": gluon,
        "triton.experimental.gluon.language": gluon.language,
        "gr_ops.cuda.hopper.structs": structs,
    }
    names = [f"gr_ops.cuda.hopper.{name}" for name in ("relative", "table_sums")]
    before = {name: sys.modules.pop(name, None) for name in (*stand_ins, *names)}
    sys.modules.update(stand_ins)
    try:
        found = [importlib.import_module(name) for name in names]
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
    for module in found:
        module.bucket_of = _bucket_of
    return found
