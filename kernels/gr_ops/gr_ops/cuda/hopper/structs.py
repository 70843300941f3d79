"""Structs of the kernels for Hopper."""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate


def struct(cls: Any) -> Any:
    """An aggregate whose constructor takes its fields in their order."""
    fields = tuple(cls.__annotations__)
    constants = tuple(name for name, kind in cls.__annotations__.items() if kind is gl.constexpr)

    @gluon.constexpr_function
    def __init__(self, *values):  # noqa: N807 (it becomes the method of that name)
        for name, value in zip(fields, values, strict=True):
            setattr(self, name, gl.constexpr(value) if name in constants else value)

    cls.__init__ = __init__
    return aggregate(cls)
