"""The HSTU operators on CUDA tensors, in Triton, and for Hopper in Gluon (hopper/); paths.py chooses.

As in flash attention scores never leave the chip, and the backward pass calculates them again; SiLU needs no maximum
and no sum of a row, so nothing but the inputs is kept. In Triton gradients of keys and values, of queries and of the
bias are kernels of their own: seven products, nine with a bias, in place of five, but no atomic sums, and the same bits
every time. `operators` registers them; it is imported where Triton is installed.

Shape suffixes of the kernels
  Q  queries of one tile    K  keys of one tile    A  query/key dim of a head    V  value dim of a head
"""
