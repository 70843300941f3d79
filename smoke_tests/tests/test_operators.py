import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from smoke_tests.checks import jagged_cases, model_cases, operators

ROOT = Path(__file__).parents[2]


def test_missing_packages_are_named(tmp_path):
    names = ["dense_to_jagged", "asynchronous_complete_cumsum"]
    faults, _ = operators.vendor_faults(names, tmp_path)
    assert len(faults) == 1 and "no operator package is installed" in faults[0]
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors/config.ini").write_text("load_priority=customize,mxrec_dense_to_jagged\n")
    faults, vendors = operators.vendor_faults(names, tmp_path)
    assert not vendors and len(faults) == 2
    assert "libcust_opapi.so does not exist" in faults[0]
    assert "load_priority does not list mxrec_asynchronous_complete_cumsum" in faults[1]


def test_packages_that_stand_beside_the_toolkit_are_found_by_their_variable(tmp_path):
    """As with --engine none on a machine with CANN. Both variables: the first has the one, the second the other."""
    names = ["dense_to_jagged", "asynchronous_complete_cumsum"]
    place = tmp_path / "prefix" / "mxrec_dense_to_jagged"
    faults, _ = operators.vendor_faults(names, tmp_path, [place])
    assert len(faults) == 1 and "no operator package is installed" in faults[0]
    faults, _ = operators.vendor_faults(names[:1], tmp_path, [place])
    assert faults == [f"{place}/op_api/lib/libcust_opapi.so does not exist"]
    library = place / "op_api/lib/libcust_opapi.so"
    library.parent.mkdir(parents=True)
    code = "void aclnnDenseToJagged() {} void aclnnDenseToJaggedGetWorkspaceSize() {}"
    build = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(build, input=code, text=True, check=True)
    assert operators.vendor_faults(names[:1], tmp_path, [place]) == ([], {place.name: library})


def test_reference_by_hand():
    values = np.array([[1.0], [2.0], [3.0], [4.0]])
    padded, back = jagged_cases.reference(values, np.array([0, 3, 3, 4]), 2, pad=7)
    assert padded[..., 0].tolist() == [[1, 2], [7, 7], [4, 7]]
    assert back[:, 0].tolist() == [1, 2, 0, 4]  # the third value was cut off


def test_comparisons_hold_for_stock_fbgemm():
    """The reference agrees with an implementation that is not ours."""
    program = [sys.executable, "-m", "smoke_tests.tests.stock_comparison"]
    alone = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # torch_npu is loaded with gr_ops
    done = subprocess.run(program, env=alone, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0 and done.stdout.endswith(" cases equal\n"), done.stdout + done.stderr


def test_attention_reference_equals_pytorch():
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(5, 2, 3)) for _ in range(3))
    expected = torch.zeros(5, 2, 3, dtype=torch.float64)
    for start, end in ((0, 3), (3, 5)):
        for head in range(2):
            a, b, c = (torch.from_numpy(x)[start:end, head] for x in (q, k, v))
            expected[start:end, head] = (torch.nn.functional.silu(a @ b.T) * 0.5).tril() @ c
    actual = model_cases.attention(q, k, v, np.array([0, 3, 5]), 0.5)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-6)
