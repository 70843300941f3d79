"""What stands before and behind the layers on CUDA tensors, in Triton: tokens' vectors from tables (embed.py), and the
norm of the tokens that are scored (scored.py).

Shape suffixes
  L  tokens     I  interactions     D  columns of a vector     R  rows of a table
  M  rows of one program            P  a whole vector, padded
"""
