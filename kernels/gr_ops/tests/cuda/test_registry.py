"""An operator of any kind joins with one line of gr_ops.cuda.operators.OPERATORS."""

import sys
from types import ModuleType

import torch
from gr_ops.cuda import operators


def test_an_operator_joins_with_one_line():
    """One that is no attention; its module is imported by its first call, and is given the operator."""
    library = torch.library.Library("gr_ops_registry", "DEF")
    library.define("twice.out_of_place(Tensor x, int times=2) -> Tensor")
    module = ModuleType("gr_ops_registry_kernels")
    seen = []
    module.twice = lambda op, x, times=2: seen.append(op) or x * times
    line = {"twice.out_of_place": "gr_ops_registry_kernels:twice"}
    registered = operators.register("CPU", line, "gr_ops_registry")
    sys.modules[module.__name__] = module  # after the registration
    op = torch.ops.gr_ops_registry.twice.out_of_place
    assert op(torch.ones(2), 3).tolist() == [3, 3]
    assert seen == [op]
    del sys.modules[module.__name__]
    registered._destroy()


def test_every_line_names_a_function():
    for name, place in operators.OPERATORS.items():
        packet, _, overload = name.partition(".")
        assert hasattr(getattr(torch.ops.mxrec, packet), overload or "default")
        module, _, function = place.partition(":")
        __import__(module)
        assert callable(getattr(sys.modules[module], function))
