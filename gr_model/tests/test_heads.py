"""Heads against the formula, one item and task at a time."""

import numpy as np
import torch

from gr_model.model import heads


def silu(x):
    return x / (1 + np.exp(-x))


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


def test_mlp():
    torch.manual_seed(0)
    head, x = heads.MLPHead(5, 7, 3).double(), torch.randn(4, 5, dtype=torch.float64)
    w = arrays(head)
    expected = [
        w["output.weight"] @ silu(w["hidden.weight"] @ row + w["hidden.bias"]) + w["output.bias"] for row in x.numpy()
    ]
    np.testing.assert_allclose(head(x).detach().numpy(), expected, rtol=1e-12)


def test_mixture_of_experts_with_a_gate_for_each_task():
    torch.manual_seed(0)
    dim, hidden, experts, tasks = 5, 6, 3, 4
    head, x = heads.MMoEHead(dim, hidden, experts, tasks).double(), torch.randn(7, dim, dtype=torch.float64)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_()
    w = arrays(head)
    expected = np.zeros((7, tasks))
    for i, row in enumerate(x.numpy()):
        outputs = []
        for e in range(experts):
            part = slice(e * hidden, (e + 1) * hidden)
            outputs.append(silu(w["expert.weight"][part] @ row + w["expert.bias"][part]))
        for t in range(tasks):
            part = slice(t * experts, (t + 1) * experts)
            gate = np.exp(w["gate.weight"][part] @ row + w["gate.bias"][part])
            mixed = sum(g * out for g, out in zip(gate / gate.sum(), outputs, strict=True))
            expected[i, t] = mixed @ w["tower_TH"][t] + w["bias_T"][t]
    np.testing.assert_allclose(head(x).detach().numpy(), expected, rtol=1e-10)
