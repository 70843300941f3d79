"""torch.compile's default back end on the emulated NPU: a clear refusal in place of Triton's `0 active drivers ([])`.

Inductor generates Triton kernels, which need a compiler for the device; the emulation has none. torch calls `register`
when it is imported (the entry point group `torch.backends`). Not for a program that imports torch_npu before torch,
nor with `TORCH_DEVICE_BACKEND_AUTOLOAD=0`: Triton's error stays there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ascend_twin.home import is_twin

REFUSAL = (
    "torch.compile's back end 'inductor' is not emulated: it generates Triton kernels for the NPU, which only a device "
    "runs. These back ends work here: torch.compile(model, backend='aot_eager') traces forward and backward, "
    "torch.compile(model, backend='eager') only the graph of the program. (ascend-twin, docs/twin.md)"
)


class NotEmulated(RuntimeError):
    """The emulated NPU cannot do what was asked for."""


def register() -> None:
    """Guards Inductor, where the emulation is in place; elsewhere nothing changes."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    if not home or not is_twin(Path(home)):
        return
    import torch

    try:
        import torch_npu  # noqa: F401  # it wraps the same call, and looks for Triton's driver there: it must be inside
    except Exception:  # torch loads torch_npu by itself too, and tells what is wrong with it
        return
    wrapper = torch._TorchCompileInductorWrapper
    if not getattr(wrapper.__call__, "guarded_by_ascend_twin", False):
        wrapper.__call__ = _guarded(wrapper.__call__)


def _guarded(compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, model_: Any, inputs_: Iterable[Any]) -> Any:
        if any(getattr(getattr(value, "device", None), "type", "") == "npu" for value in inputs_) or _holds_npu(model_):
            raise NotEmulated(REFUSAL)
        return compile_graph(self, model_, inputs_)

    guarded.guarded_by_ascend_twin = True  # type: ignore[attr-defined]
    return guarded


def _holds_npu(graph: Any) -> bool:
    """Of a graph without inputs on the device: a parameter there, or a call that makes a tensor there."""
    state = [*graph.parameters(), *graph.buffers()]
    devices = [tensor.device.type for tensor in state]
    for node in graph.graph.nodes:
        value = node.meta.get("example_value")
        devices.append(getattr(getattr(value, "device", None), "type", ""))
    return "npu" in devices
