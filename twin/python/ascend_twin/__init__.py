"""An emulated Ascend NPU: the runtime libraries that the unmodified torch_npu wheel loads, on a CPU.

`python -m ascend_twin` has the commands. Nothing here imports torch: the dynamic loader reads LD_LIBRARY_PATH only when
a process starts, so the libraries are put in place for a new process (`run`) or a new shell (`env`).
"""
