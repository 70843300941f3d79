"""mxrec::sampled_softmax_gradients."""

from operator_samples import sampled_softmax


def arguments(device: str) -> tuple[object, ...]:
    return sampled_softmax.arguments(device, learned=False)
