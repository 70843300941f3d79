"""The operators around HSTU's attention on CUDA tensors: hstu_projection, hstu_gated_output and hstu_keep, in Triton.

What goes by rows (norms, gates) is in rows.py, products whose results are wanted through a function in products.py:
scores of SiLU never reach memory as they are. Products that end as they are stay PyTorch's.

Shape suffixes of the kernels
  M  tokens of one tile     K  inner elements of one step     N  columns of one tile     P  a whole row, padded
"""
