"""Layers that models outside of recommenders use: results and gradients, against PyTorch in float64 on the CPU.

Prints the largest difference of each, as JSON.
"""

import copy
import json
import sys

import torch
import torch_npu
from ascend_twin.conformance import calls
from torch import nn
from torch.nn.utils import rnn


def largest(given: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return max(float((a.double().cpu() - b).abs().max()) for a, b in zip(given, expected, strict=True))


def results(net: torch.nn.Module, start: torch.Tensor) -> list[torch.Tensor]:
    """What the layer gives and the gradients of its input and parameters, all of whose results count."""
    start = start.detach().requires_grad_()
    given = tensors(net(start))
    loss = sum(one.square().sum() for one in given)
    loss.backward()
    return [*(one.detach() for one in given), start.grad, *(p.grad for p in net.parameters())]


def layer(module: torch.nn.Module, *shape: int, dtype: torch.dtype = torch.float32) -> float:
    module = module.to(dtype)
    x, moved = torch.randn(shape).to(dtype), copy.deepcopy(module).npu()
    found = [results(module.double(), x.double()), results(moved, x.npu())]
    scaled = [[t.double().cpu() / b.abs().max().clamp_min(1.0) for t, b in zip(side, found[0])] for side in found]
    return largest(scaled[1], scaled[0])


class Block(nn.Module):
    """What follows a convolution in a network of images: torch_npu keeps half precision in NC1HWC0 all the way."""

    def __init__(self, pool: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.BatchNorm2d(20), nn.ReLU())
        self.pool = pool
        self.second = nn.Sequential(nn.Conv2d(20, 20, 3, padding=1, bias=False), nn.BatchNorm2d(20))
        self.last, self.head = last, nn.LazyLinear(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.first(x))
        x = torch.relu(self.second(x) + x)
        return self.head(self.last(x).flatten(1))


def block(pool: nn.Module, last: nn.Module, training: bool = True) -> float:
    """The error of five networks over that of PyTorch's own kernels in half precision, which flip a ReLU or a maximum
    here and there too; each tensor by its norm."""
    errors = {"npu": 0.0, "cpu": 0.0}
    for seed in range(5):
        torch.manual_seed(seed)
        net = Block(pool, last).train(training)
        net(torch.randn(6, 3, 12, 10))  # gives the head its width, and the norms statistics that are not 0 and 1
        net, x = net.half(), torch.randn(6, 3, 12, 10).half()
        exact = results(copy.deepcopy(net).double(), x.double())
        for device in errors:
            found = results(copy.deepcopy(net).to(device), x.to(device))
            errors[device] += sum(
                float((one.double().cpu() - e).norm() / e.norm().clamp_min(1e-2)) for one, e in zip(found, exact)
            )
    return errors["npu"] / errors["cpu"]


class Sequence(nn.Module):
    """What a recurrent layer returns, of each step or of the last, given to another layer."""

    def __init__(self, recurrent: nn.Module, last: bool) -> None:
        super().__init__()
        self.recurrent, self.last, self.head = recurrent, last, nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = self.recurrent(x)[0]
        return self.head(steps[-1]) if self.last else self.head(steps).relu()


def packed(module: nn.LSTM, lengths: list[int], *shape: int, states: bool = True) -> float:
    """Padded steps, last states and gradients of the parameters, of sequences of different lengths.

    Not what torch_npu has wrong (wheel_faults.py): gradients of the input, and by a reverse direction's last states.
    """
    first = module.batch_first

    def found(net: nn.LSTM, x: torch.Tensor) -> list[torch.Tensor]:
        given = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first, enforce_sorted=False)
        steps, state = net(given)
        results = [rnn.pad_packed_sequence(steps, batch_first=first)[0], *state]
        sum(one.square().sum() for one in results[: 3 if states else 1]).backward()
        return [*(one.detach() for one in results), *(p.grad for p in net.parameters())]

    x, moved = torch.randn(shape), copy.deepcopy(module).npu()
    return largest(found(moved, x.npu()), found(module.double(), x.double()))


class Spectrum(nn.Module):
    """Real and imaginary parts of a short-time Fourier transform."""

    def __init__(self, parts: bool, **options: object) -> None:
        super().__init__()
        self.parts, self.options = parts, options
        self.register_buffer("window", torch.hann_window(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        options = {"hop_length": 4, "win_length": 12, "window": self.window, "return_complex": not self.parts}
        found = torch.stft(x, 16, **options, **self.options)
        return found if self.parts else torch.view_as_real(found)


def tensors(results: object) -> list[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        return [results]
    return [t for part in results for t in tensors(part)]


def cell(module: torch.nn.Module) -> float:
    """Three steps of a recurrent cell, each from the state of the one before."""

    class Steps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = module

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            state, kept = None, []
            for step in x.unbind(0):
                state = self.cell(step) if state is None else self.cell(step, state)
                kept.extend(tensors(state))
            return kept

    return layer(Steps(), 3, 2, 4)


def rotary(factor: tuple[int, ...], dtype: torch.dtype) -> float:
    values = [v.to(dtype) for v in (torch.randn(2, 3, 4, 64), torch.randn(factor), torch.randn(factor))]
    reference = [v.double().requires_grad_() for v in values]
    x, cosine, sine = reference
    first, second = x.chunk(2, -1)
    expected = x * cosine + torch.cat((-second, first), -1) * sine
    expected.square().sum().backward()
    moved = [v.npu().requires_grad_() for v in values]
    given = torch_npu.npu_rotary_mul(*moved)
    given.square().sum().backward()
    grads = [[v.grad for v in side] for side in (moved, reference)]
    scale = max(float(g.abs().max()) for g in grads[1])
    return max(largest([given], [expected.detach()]), largest(*grads) / scale)


CHECKS = {
    "conv1d": lambda: layer(nn.Conv1d(3, 4, 3, padding=1), 2, 3, 8),
    "conv1d_strided": lambda: layer(nn.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2, bias=False), 2, 4, 11),
    "conv2d": lambda: layer(nn.Conv2d(3, 4, 3, padding=1), 2, 3, 8, 8),
    "conv2d_strided": lambda: layer(
        nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=2, bias=False), 2, 4, 9, 7
    ),
    "conv2d_depthwise": lambda: layer(nn.Conv2d(4, 8, 3, padding=1, groups=4), 2, 4, 8, 8),
    "conv2d_half": lambda: layer(nn.Conv2d(3, 4, 3), 2, 3, 8, 8, dtype=torch.float16),
    "conv3d": lambda: layer(nn.Conv3d(3, 4, 3, padding=1, stride=2), 2, 3, 7, 6, 8),
    "conv_transpose1d": lambda: layer(nn.ConvTranspose1d(3, 4, 3, stride=2), 2, 3, 8),
    "conv_transpose2d": lambda: layer(
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, dilation=2, groups=2), 2, 4, 5, 6
    ),
    "conv_transpose2d_wide_padding": lambda: layer(  # of the output, by more than a stride
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=2, dilation=3, groups=2), 2, 4, 5, 6
    ),
    "conv_transpose3d": lambda: layer(nn.ConvTranspose3d(3, 4, 3, stride=2, bias=False), 2, 3, 4, 3, 5),
    "block_half": lambda: block(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)),
    "block_half_overlapping": lambda: block(nn.MaxPool2d(3, stride=2, padding=1), nn.AdaptiveAvgPool2d((2, 3))),
    "block_half_mean": lambda: block(nn.AvgPool2d(2), nn.AvgPool2d((3, 2))),
    "block_half_evaluated": lambda: block(nn.MaxPool2d(2), nn.Flatten(), training=False),
    "lstm": lambda: layer(nn.LSTM(4, 5, num_layers=3, batch_first=True), 3, 6, 4),
    "lstm_without_bias": lambda: layer(nn.LSTM(4, 5, bias=False, bidirectional=True), 3, 6, 4),
    "lstm_wide": lambda: layer(nn.LSTM(20, 37, num_layers=2, bidirectional=True), 3, 18, 20),
    "stft": lambda: layer(Spectrum(parts=False), 2, 64),
    "stft_normalized": lambda: layer(Spectrum(parts=True, normalized=True, center=False, onesided=False), 50),
    "lstm_cell": lambda: cell(nn.LSTMCell(4, 5)),
    "gru": lambda: layer(nn.GRU(4, 5), 3, 6, 4),
    "gru_layers": lambda: layer(nn.GRU(20, 37, num_layers=2), 3, 18, 20),
    "gru_without_bias": lambda: layer(nn.GRU(4, 5, bias=False), 3, 6, 4),
    "gru_bidirectional": lambda: layer(nn.GRU(4, 5, bidirectional=True, batch_first=True), 3, 6, 4),
    "gru_and_linear": lambda: layer(Sequence(nn.GRU(4, 5), last=False), 3, 6, 4),
    "gru_last_and_linear": lambda: layer(Sequence(nn.GRU(4, 5), last=True), 3, 6, 4),
    "gru_cell": lambda: cell(nn.GRUCell(4, 5)),
    "rotary_float32": lambda: max(rotary(f, torch.float32) for f in ((1, 3, 1, 64), (2, 3, 1, 64), (1, 1, 1, 64))),
    "rotary_float16": lambda: rotary((1, 3, 1, 64), torch.float16),
}

# In the other mode torch_npu's LSTM and PyTorch's packing disagree on what packed is.
ACLNN = {
    "lstm_packed": lambda: packed(nn.LSTM(4, 5), [2, 6, 4], 6, 3, 4),
    "lstm_packed_layers": lambda: packed(nn.LSTM(4, 16, num_layers=2, batch_first=True), [5, 1, 7, 7], 4, 7, 4),
    "lstm_packed_bidirectional": lambda: packed(nn.LSTM(4, 16, bidirectional=True), [2, 6, 4], 6, 3, 4, states=False),
}


def main(names: list[str]) -> None:
    if "no_internal_formats" in names:
        torch.npu.config.allow_internal_format = False
        names.remove("no_internal_formats")
    errors = {name: (CHECKS | ACLNN)[name]() for name in names or CHECKS}
    print(json.dumps({"errors": errors, "called": calls.called()}))


if __name__ == "__main__":
    torch.manual_seed(1)
    main(sys.argv[1:])
