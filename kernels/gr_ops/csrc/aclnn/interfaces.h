#pragma once

// Written by: python3 kernels/packaging/interface.py --table kernels/operators
// What this plugin calls operators by, which their packages say in version.info.
namespace gr_ops::aclnn {

struct Interface {
  const char* function;
  const char* package;
  const char* key;
};

// clang-format off
constexpr Interface kInterfaces[] = {
    {"aclnnAsynchronousCompleteCumsum", "mxrec_opp_asynchronous_complete_cumsum", "b079704a8194"},
    {"aclnnBackwardCodegenAdagradUnweightedExact", "mxrec_opp_backward_codegen_adagrad_unweighted_exact", "00d86852e17a"},
    {"aclnnBoundsCheckIndices", "mxrec_opp_bounds_check_indices", "e14cdab2ad9a"},
    {"aclnnDenseToJagged", "mxrec_opp_dense_to_jagged", "61d06ff26825"},
    {"aclnnGatherForRank1", "mxrec_opp_gather_for_rank1", "35b75177368e"},
    {"aclnnHstuDenseBackward", "mxrec_opp_hstu_dense_backward", "6d26b73d6d3d"},
    {"aclnnHstuRelativeBackward", "mxrec_opp_hstu_dense_backward", "6d26b73d6d3d"},
    {"aclnnHstuDenseForward", "mxrec_opp_hstu_dense_forward", "e8c1c4b7d638"},
    {"aclnnHstuRelativeForward", "mxrec_opp_hstu_dense_forward", "e8c1c4b7d638"},
    {"aclnnHstuGatedOutput", "mxrec_opp_hstu_gated_output", "6559317f2937"},
    {"aclnnHstuGatedOutputBackward", "mxrec_opp_hstu_gated_output", "6559317f2937"},
    {"aclnnHstuProjection", "mxrec_opp_hstu_projection", "4e6e69f6c389"},
    {"aclnnHstuProjectionBackward", "mxrec_opp_hstu_projection", "4e6e69f6c389"},
    {"aclnnIndexSelectForRank1Backward", "mxrec_opp_index_select_for_rank1_backward", "e71d31228d7e"},
    {"aclnnJaggedToPaddedDense", "mxrec_opp_jagged_to_padded_dense", "cd86f9177394"},
    {"aclnnPermute2dSparseData", "mxrec_opp_permute2d_sparse_data", "fd9983b49cea"},
    {"aclnnPermute2dSparseDataGrad", "mxrec_opp_permute2d_sparse_data", "fd9983b49cea"},
    {"aclnnSplitEmbeddingCodegenForwardUnweighted", "mxrec_opp_split_embedding_codegen_forward_unweighted", "b3fd35fea9b1"},
};
// clang-format on

}  // namespace gr_ops::aclnn
