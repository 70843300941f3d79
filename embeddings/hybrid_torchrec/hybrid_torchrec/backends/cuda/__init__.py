"""Tables on CUDA devices: ids to slots, lookups and fused updates by Triton kernels, several tables to a launch."""
