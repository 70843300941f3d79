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
    {"aclnnBackwardCodegenAdagradUnweightedExact", "mxrec_opp_backward_codegen_adagrad_unweighted_exact", "d2fae2fea448"},
    {"aclnnBoundsCheckIndices", "mxrec_opp_bounds_check_indices", "27e82d30887f"},
    {"aclnnDenseToJagged", "mxrec_opp_dense_to_jagged", "8db6e8a6ebae"},
    {"aclnnGatherForRank1", "mxrec_opp_gather_for_rank1", "35b75177368e"},
    {"aclnnHstuDenseBackward", "mxrec_opp_hstu_dense_backward", "ce9409759997"},
    {"aclnnHstuRelativeBackward", "mxrec_opp_hstu_dense_backward", "ce9409759997"},
    {"aclnnHstuDenseForward", "mxrec_opp_hstu_dense_forward", "8647f319326a"},
    {"aclnnHstuRelativeForward", "mxrec_opp_hstu_dense_forward", "8647f319326a"},
    {"aclnnHstuGatedOutput", "mxrec_opp_hstu_gated_output", "3479f2d30956"},
    {"aclnnHstuGatedOutputBackward", "mxrec_opp_hstu_gated_output", "3479f2d30956"},
    {"aclnnHstuProjection", "mxrec_opp_hstu_projection", "154ec823d697"},
    {"aclnnHstuProjectionBackward", "mxrec_opp_hstu_projection", "154ec823d697"},
    {"aclnnIndexSelectForRank1Backward", "mxrec_opp_index_select_for_rank1_backward", "e71d31228d7e"},
    {"aclnnJaggedToPaddedDense", "mxrec_opp_jagged_to_padded_dense", "8dd77f6ce624"},
    {"aclnnPermute2dSparseData", "mxrec_opp_permute2d_sparse_data", "768dfa53bba4"},
    {"aclnnPermute2dSparseDataGrad", "mxrec_opp_permute2d_sparse_data", "768dfa53bba4"},
    {"aclnnSplitEmbeddingCodegenForwardUnweighted", "mxrec_opp_split_embedding_codegen_forward_unweighted", "0433475ae7f2"},
};
// clang-format on

}  // namespace gr_ops::aclnn
