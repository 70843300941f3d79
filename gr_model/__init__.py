"""HSTU models for generative recommenders: retrieval and ranking, on NPU, CUDA GPU or CPU."""
