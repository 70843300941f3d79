"""What a tensor on the NPU must do besides arithmetic. Prints {check: "" or what went wrong}."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import torch
import torch.nn as nn

X = torch.arange(12.0).view(3, 4)


def autocast_bfloat16() -> None:
    layer = nn.Linear(4, 4)
    copy = nn.Linear(4, 4).to("npu:0")
    copy.load_state_dict(layer.state_dict())
    with torch.autocast("npu", dtype=torch.bfloat16):
        out = copy(X.npu())
        norm = nn.functional.layer_norm(out, (4,))
    assert out.dtype is torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = layer(X)
    torch.testing.assert_close(out.cpu(), expected)
    norm.float().sum().backward()
    assert copy.weight.grad is not None and copy.weight.grad.dtype is torch.float32


def bfloat16_losses(device: str) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 1))  # on the CPU: equal weights
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x, y = (X / 12).to(device), torch.tensor([0.0, 1.0, 0.0]).to(device)
    losses = []
    for _ in range(20):
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            logits = model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def autocast_trains() -> None:
    # bfloat16 has 8 bits: the two autocast policies round at different places.
    npu, cpu = bfloat16_losses("npu:0"), bfloat16_losses("cpu")
    assert npu[-1] < npu[0], npu
    assert max(abs(a - b) for a, b in zip(npu, cpu)) < 2e-2, (npu, cpu)


def two_devices() -> None:
    a, b = X.to("npu:0"), X.to("npu:1")
    assert (b * 2).device == torch.device("npu:1")
    assert torch.equal((b * 2).cpu(), X * 2)
    assert torch.equal((a.to("npu:1") + b).cpu(), X + X)
    assert torch.zeros_like(b).device.index == 1
    with torch.npu.device(1):
        assert torch.rand(2, device="npu").device.index == 1


def save_and_load() -> None:
    model = nn.Linear(4, 2).to("npu:0")
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "x": X.npu()[1:]}, buffer)
    for target in ("npu:1", "cpu"):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=target, weights_only=True)
        assert loaded["x"].device == torch.device(target)
        assert torch.equal(loaded["x"].cpu(), X[1:])
        assert torch.equal(loaded["model"]["weight"].cpu(), model.weight.cpu())


def views_share_memory() -> None:
    base = X.npu()
    view = base[1:, ::2]
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    view.mul_(10)
    expected = X.clone()
    expected[1:, ::2] *= 10
    assert torch.equal(base.cpu(), expected)
    flat = base.view(-1)
    flat[0] = -1
    assert base[0, 0].item() == -1
    assert torch.equal(base.t().contiguous().cpu(), base.cpu().t())


def in_place_keeps_identity() -> None:
    tensor = X.npu()
    version, address = tensor._version, tensor.data_ptr()
    assert tensor.add_(1) is tensor
    assert tensor._version == version + 1 and tensor.data_ptr() == address


def out_grows_and_keeps_its_storage() -> None:
    x = X.npu()
    out = torch.empty(0, device="npu:0")
    detached = out.detach()
    assert torch.add(x, 1, out=out) is out
    assert torch.equal(out.cpu(), X + 1)
    assert detached.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()


def out_of_right_size_is_written_in_place() -> None:
    whole = torch.zeros(5, 4, device="npu:0")
    torch.mul(X.npu(), 2, out=whole[1:4])
    assert torch.equal(whole[1:4].cpu(), X * 2) and whole[0].sum().item() == 0 and whole[4].sum().item() == 0


def side_stream_is_waited_for() -> None:
    stream = torch.npu.Stream()
    x = X.npu()
    with torch.npu.stream(stream):
        y = x
        for _ in range(50):
            y = y + 1
    torch.npu.current_stream().wait_stream(stream)
    assert torch.equal((y * 1).cpu(), X + 50)


def backward_runs_on_its_own_thread() -> None:
    x = X.npu().requires_grad_()
    (x.exp() * x[0]).sum().backward()
    y = X.clone().requires_grad_()
    (y.exp() * y[0]).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.grad)


def double_and_complex_compute() -> None:
    """The bits travel, and arithmetic is the CPU's; what torch_npu itself changes is in the next check."""
    real = torch.tensor([1 / 3, -2.5, 1e-300], dtype=torch.float64)
    for values in (real, torch.complex(real, real.flip(0)), torch.complex(real.float(), real.float().flip(0))):
        there = values.npu()
        assert there.dtype is values.dtype and torch.equal(there.cpu(), values)
        for function in (lambda x: x + x, lambda x: x * 1.1, torch.exp, torch.sum):
            found, expected = function(there).cpu(), function(values)
            assert found.dtype is expected.dtype, (found, expected)
            torch.testing.assert_close(found, expected, rtol=1e-14 if values is real else 1e-6, atol=0)
    pairs = torch.view_as_real(torch.complex(real, real).npu())
    assert torch.equal(pairs.cpu(), torch.stack([real, real], 1))


def torch_npu_makes_float32_of_a_cast_to_double() -> None:
    assert X.npu().double().dtype is torch.float32
    assert X.npu().to(torch.float64).dtype is torch.float32
    refused = False
    try:
        torch.tensor([1 + 2j]).npu().item()
    except RuntimeError as error:
        refused = "not implemented for" in str(error)
    assert refused


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        autocast_bfloat16,
        autocast_trains,
        two_devices,
        save_and_load,
        views_share_memory,
        in_place_keeps_identity,
        out_grows_and_keeps_its_storage,
        out_of_right_size_is_written_in_place,
        side_stream_is_waited_for,
        backward_runs_on_its_own_thread,
        double_and_complex_compute,
        torch_npu_makes_float32_of_a_cast_to_double,
    )
}


def outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception as error:  # every check is reported
        return f"{type(error).__name__}: {error}"[:600]
    return ""


if __name__ == "__main__":
    print(json.dumps({name: outcome(check) for name, check in CHECKS.items()}))
