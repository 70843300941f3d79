"""Operators that embedding, jagged and ranking models, their metrics and optimizers use."""

_NAMES = """
    abs add addcdiv addcmul addmm all amax amin any arange argmax argmin argsort baddbmm bincount bitwise_and
    bitwise_not bitwise_or bmm cat ceil chunk clamp clamp_max clamp_min clone contiguous cos cummax cumprod cumsum
    div.floor_rounding div.no_rounding_mode div.trunc_rounding einsum eq erf exp expand expand_as expm1 fill flip
    float_power floor floor_divide fmod full full_like gather ge gt half histc index_add index_copy index_fill
    index_put index_select isfinite isinf isnan le lerp linalg.vector_norm log log10 log1p log2 log_softmax
    logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_scatter masked_select matmul
    max.binary max.reduction_no_dim max.reduction_with_dim maximum mean median min.binary min.reduction_no_dim
    min.reduction_with_dim minimum mm mul mv nan_to_num narrow ne neg new_zeros nn.functional.batch_norm
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.cross_entropy
    nn.functional.dropout nn.functional.elu nn.functional.embedding nn.functional.embedding_bag nn.functional.gelu
    nn.functional.glu nn.functional.group_norm nn.functional.hardtanh nn.functional.kl_div nn.functional.l1_loss
    nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid
    nn.functional.mse_loss nn.functional.nll_loss nn.functional.one_hot nn.functional.pad.constant nn.functional.relu
    nn.functional.rms_norm nn.functional.silu nn.functional.smooth_l1_loss nn.functional.softplus nonzero norm ones
    ones_like outer permute pow prod reciprocal remainder repeat repeat_interleave reshape roll round rsqrt rsub
    scatter scatter_add searchsorted select sigmoid sign sin softmax sort split split_with_sizes sqrt squeeze stack std
    std_mean sub sum t take tanh topk transpose tril triu true_divide trunc unbind unfold unique unsqueeze var var_mean
    view where xlogy zero_ zeros zeros_like
"""
OPERATORS = tuple(_NAMES.split())
