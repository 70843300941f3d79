"""Which torch operators must answer NPU tensors through ours, from the names of the installed Ascend C operators."""

from __future__ import annotations

from collections.abc import Iterable

# Where the torch operator is not mxrec::<operator>.
TORCH_OPERATORS = {
    "asynchronous_complete_cumsum": "fbgemm::asynchronous_complete_cumsum",
    "jagged_to_padded_dense": "fbgemm::jagged_to_padded_dense",
    "dense_to_jagged": "fbgemm::dense_to_jagged",
    "hstu_dense_forward": "mxrec::hstu_dense",
    "permute2d_sparse_data": "fbgemm::permute_2D_sparse_data",
    "bounds_check_indices": "fbgemm::bounds_check_indices",
    "split_embedding_codegen_forward_unweighted": "fbgemm::split_embedding_codegen_forward_unweighted_cuda",
    "backward_codegen_adagrad_unweighted_exact": (
        "fbgemm::split_embedding_backward_codegen_adagrad_unweighted_exact_cuda"
    ),
}


def torch_operator(operator: str) -> str:
    """gather_for_rank1 -> mxrec::gather_for_rank1."""
    return TORCH_OPERATORS.get(operator, f"mxrec::{operator}")


def torch_operators(operators: Iterable[str]) -> list[str]:
    return [torch_operator(operator) for operator in operators]
