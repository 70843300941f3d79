"""fbgemm's operators on NPU tensors that have no Ascend C operator: composites of PyTorch's and of our own operators.

Everything stays on the device: without these, torch_npu copies all tensors to the host and back. What fbgemm_gpu itself
has for NVIDIA's devices alone (`jagged_unique_indices`, `keyed_jagged_index_select_dim1`) is here too, and what no
kernel of an NPU or of the host can do raises an error that says so. docs/generated/fbgemm-names.md lists every name.

Row counts, shapes, types and devices are checked in every call. What offsets, permutations and indices hold is not
looked at, with MXREC_CHECK=1 neither; an index outside of its tensor reads the nearest element of it.
"""

from gr_ops.fbgemm.registry import composites, refused, register

__all__ = ["composites", "refused", "register"]
