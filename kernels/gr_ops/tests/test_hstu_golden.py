"""Golden cases with their results, and the documents' own example."""

import hstu_reference as reference
import numpy as np
import pytest
import torch

ops = torch.ops.mxrec


def gen(a: int, b: int, c: int) -> torch.Tensor:
    i, h, d = torch.meshgrid(torch.arange(6), torch.arange(2), torch.arange(8), indexing="ij")
    return ((a * i + b * h + c * d) % 11 - 5).float() / 5


INDEX = torch.arange(2 * 2 * 4 * 4).view(2, 2, 4, 4)
BIAS = ((3 * INDEX) % 7 - 3).float() / 10
MASK = ((5 * INDEX) % 3 != 0).float()


def jagged(offsets: list[int], **settings: object) -> dict[str, object]:
    """Lists are tensors."""
    given = {"seq_offset": offsets, **settings}
    return {name: torch.tensor(value) if isinstance(value, list) else value for name, value in given.items()}


# The arguments of hstu_jagged, or of hstu_dense in normal layout.
ARGUMENTS: dict[str, dict[str, object]] = {
    "H1": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0),
    "H2": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0, mask_type=1),
    "H3": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0, mask_type=2),
    "H4": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0, mask_type=3, mask=MASK),
    "H5": jagged([0, 2, 6], max_seq_len=4),
    "H6": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0, attn_bias=BIAS),
    "H7": jagged([0, 2, 6], max_seq_len=4, silu_scale=1.0, attn_bias=BIAS, alpha=0.5),
    "H8": jagged([0, 2, 6], silu_scale=1.0, num_context=[0, 1], num_target=[1, 2], target_group_size=1),
    "H9": {"maskType": 0},
    "H10": {"maskType": 2, "siluScale": 0.25},
    "H11": jagged([0, 2, 5, 6], max_seq_len=3, silu_scale=1.0),
    "H12": jagged([0, 6], silu_scale=1.0, alpha=0.5, num_context=[2], num_target=[2], target_group_size=1),
    "H13": jagged([0, 6], silu_scale=1.0, num_context=[1], num_target=[4], target_group_size=2),
}


def table(text: str) -> dict[str, list[list[float]]]:
    """Lines of a name and columns of numbers."""
    rows = (line.split("|") for line in text.strip().splitlines())
    return {name.strip(): [[float(number) for number in column.split()] for column in rest] for name, *rest in rows}


# Sums: of O and |O|; of |dQ|, |dK|, |dV|; of |dBias| and dBias where there is a bias.
SUMS = table("""
H1  | 1.282772 27.603856  | 60.438095 55.409464 37.056532
H2  | -2.083159 35.991409 | 42.713649 30.695737 30.185459
H3  | 2.292301 40.745595  | 76.923465 51.989765 49.323128
H4  | 3.787600 39.380393  | 60.197565 41.476339 39.324051
H5  | 0.320693 6.900964   | 15.109524 13.852366 9.264133
H6  | 2.684489 26.372120  | 60.303683 55.409876 31.485762 | 15.618505 -0.988553
H7  | 1.209873 12.736088  | 26.158011 23.248057 14.374238 | 6.925796 0.021891
H8  | 0.593867 30.623631  | 55.326180 49.339100 38.849733
H9  | -0.204833 6.430532  | 13.834000 10.871630 8.923256
H10 | 0.071777 13.056718  | 33.012387 20.099583 19.037324
H11 | -0.006069 26.816619 | 50.757341 47.137956 31.628927
H12 | -1.043304 22.298288 | 41.459155 27.022984 26.954997
H13 | -4.301117 43.080624 | 76.026841 58.533971 42.054047
""")
# Elements: O[0, 0, :4] and O[5, 1, :4].
ELEMENTS = table("""
H1  | -0.063596 -0.038157 -0.012719 0.012719 | -0.787688 0.287984 0.579546 -1.273488
H2  | 0.046734 -0.038157 -0.123049 -0.207941 | -1.001536 -0.600921 -0.200307 0.200307
H3  | 0.046734 -0.038157 -0.123049 -0.207941 | -0.787688 0.287984 0.579546 -1.273488
H4  | 0.110330 0 -0.110330 -0.220660         | 0.213848 0.888905 0.779853 -1.473795
H5  | -0.015899 -0.009539 -0.003180 0.003180 | -0.196922 0.071996 0.144886 -0.318372
H6  | 0.081922 0.049153 0.016384 -0.016384   | -0.517479 0.434802 0.429837 -1.088609
H7  | 0.042976 0.025786 0.008595 -0.008595   | -0.220163 0.186262 0.170330 -0.452254
H8  | -0.063596 -0.038157 -0.012719 0.012719 | -1.001536 -0.068430 0.864676 -1.130922
H9  | -0.010599 -0.006360 -0.002120 0.002120 | -0.085104 -0.040432 0.116736 -0.184665
H10 | 0.041204 -0.060556 0.104036 0.393586   | -0.127656 -0.060648 0.175103 -0.276998
H11 | -0.063596 -0.038157 -0.012719 0.012719 | -1.001536 -0.600921 -0.200307 0.200307
H12 | 0.178483 -0.394243 -0.500450 -0.006611 | -0.340999 -0.357078 0.524565 -0.326737
H13 | 0.046734 -0.038157 -0.123049 -0.207941 | -0.510624 -0.775083 -0.364570 0.223237
""")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_golden(name: str, device: str) -> None:
    settings = ARGUMENTS[name]
    (total, magnitude), gradients, *dbias = SUMS[name]
    first, last = ELEMENTS[name]
    inputs = [gen(7, 3, 5), gen(5, 2, 3), gen(3, 7, 2)]
    grad = gen(2, 5, 7)
    normal = "seq_offset" not in settings
    if normal:
        inputs, grad = [x.unsqueeze(0) for x in inputs], grad.unsqueeze(0)
    inputs = [x.to(device).requires_grad_() for x in inputs]
    moved = {
        key: value.clone().to(device) if isinstance(value, torch.Tensor) else value for key, value in settings.items()
    }
    if dbias:
        moved["attn_bias"].requires_grad_()
        inputs.append(moved["attn_bias"])
    output = ops.hstu_dense(*inputs[:3], **moved) if normal else ops.hstu_jagged(*inputs[:3], **moved)
    grads = [g.cpu() for g in torch.autograd.grad(output, inputs, grad.to(device))]
    o = output.detach().cpu().squeeze(0) if normal else output.detach().cpu()

    np.testing.assert_allclose(o[0, 0, :4].numpy(), first, atol=1e-5)
    np.testing.assert_allclose(o[5, 1, :4].numpy(), last, atol=1e-5)
    assert o.sum().item() == pytest.approx(total, rel=1e-4, abs=1e-5)
    assert o.abs().sum().item() == pytest.approx(magnitude, rel=1e-4)
    for actual, expected in zip(grads, gradients):
        assert actual.abs().sum().item() == pytest.approx(expected, rel=1e-4)
    if dbias:
        assert [grads[3].abs().sum().item(), grads[3].sum().item()] == pytest.approx(dbias[0], rel=1e-4)


@pytest.mark.parametrize(
    "form", ["numpy int64", "numpy int32", "list", "tuple", "tensor int32", "tensor int64", "CPU tensor"]
)
def test_document_example(form: str, device: str) -> None:
    """Random data, batch 2, longest row 4, 2 heads, D 8; a mask is passed and unused; the offsets come in any form."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 5, 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask_tril = 0
    q, k, v, grad = (torch.from_numpy(rng.standard_normal((int(offsets[-1]), 2, 8))).float() for _ in range(4))
    forms = {
        "numpy int64": offsets,
        "numpy int32": offsets.astype(np.int32),
        "list": offsets.tolist(),
        "tuple": tuple(offsets.tolist()),
        "tensor int32": torch.from_numpy(offsets).int().to(device),
        "tensor int64": torch.from_numpy(offsets).to(device),
        "CPU tensor": torch.from_numpy(offsets),
    }
    seq_offset = forms[form]
    if form == "CPU tensor" and device != "cpu":
        with pytest.raises(RuntimeError, match="hstu_dense: expected seqOffset on npu:0, got cpu"):
            ops.hstu_dense(q.to(device), k.to(device), v.to(device), layout="jagged", seqOffset=seq_offset)
        return
    inputs = [x.clone().to(device).requires_grad_() for x in (q, k, v)]
    unused = torch.tril(torch.ones(2, 2, 4, 4)).to(device)
    output = ops.hstu_dense(*inputs, unused, None, mask_tril, np.max(lengths), 1.0, "jagged", seq_offset)
    grads = torch.autograd.grad(output, inputs, grad.to(device))
    assert output.shape == (lengths.sum(), 2, 8)
    rows = reference.batch(*(x.double().numpy() for x in (q, k, v)), offsets.tolist(), scale=1.0)
    np.testing.assert_allclose(output.detach().cpu().numpy(), reference.outputs(rows), atol=1e-5, rtol=1e-5)
    for actual, expected in zip(grads, reference.gradients(rows, grad.double().numpy())):
        np.testing.assert_allclose(actual.cpu().numpy(), expected, atol=1e-5, rtol=1e-5)


def test_masks_of_the_specification() -> None:
    """The two printed matrices for n=8: the reference itself is right."""
    expected = [
        ["11111000", "11111000", "11100000", "11110000", "11111000", "11111100", "11111010", "11111001"],
        ["11110000", "11110000", "11100000", "11110000", "11111000", "11111100", "11110010", "11110011"],
    ]
    for text, seen in zip(expected, (reference.visible(8, 2, 3, 1), reference.visible(8, 2, 4, 2))):
        assert ["".join("1" if cell else "0" for cell in row) for row in seen] == text
