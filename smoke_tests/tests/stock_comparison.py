"""The cases of jagged tensors on the CPU against fbgemm_gpu's own kernels. To be run where gr_ops is not imported."""

import importlib
import sys

import numpy as np
import torch

from smoke_tests.checks import jagged_cases

# What stock fbgemm 1.1.0 refuses on the CPU, and ours take.
REFUSED = {
    "to jagged, example": "unsupported number of jagged dim",
    "to padded, 5 rows, longest 9, inner 3, int8": "not implemented for 'Char'",
    "to jagged, 5 rows, longest 9, inner 3, int8": "not implemented for 'Char'",
}


def main() -> None:
    importlib.import_module("fbgemm_gpu")
    checked = 0
    for what, compute, expected, _ in jagged_cases.comparisons(torch.device("cpu")):
        try:
            actual = compute().numpy()
        except RuntimeError as error:
            assert REFUSED.get(what, "nothing") in str(error), what
            continue
        np.testing.assert_array_equal(actual, expected, err_msg=what, strict=True)
        checked += 1
    assert checked >= 27 - len(REFUSED), checked
    assert "gr_ops" not in sys.modules, "gr_ops replaces fbgemm's kernels"
    print(f"{checked} cases equal")


if __name__ == "__main__":
    main()
