"""Operators of generative recommenders for PyTorch: ``torch.ops.fbgemm.*`` and ``torch.ops.mxrec.*``.

Importing the package loads ``libgr_ops.so`` (schemas, autograd, Meta and CPU kernels) and, where torch_npu is in use,
``libfbgemm_npu_api.so`` and ``gr_ops.fbgemm`` (the kernels for NPU tensors). Without torch_npu the import still works.
The kernels for CUDA tensors are in Triton (``gr_ops.cuda``). Ours replace fbgemm_gpu's CPU kernels; with
``MXREC_NO_FBGEMM_OVERRIDE=1`` those stay.
"""

from gr_ops.library import library_directory, load, npu_loaded

__version__ = "0.1.0"
__all__ = ["__version__", "library_directory", "load", "npu_loaded"]

load()
