import numpy as np
import pytest

pytest.importorskip("elftools", reason="pyelftools is in the images")
from smoke_tests.checks import operators  # noqa: E402


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


def test_reference_by_hand():
    values = np.array([[1.0], [2.0], [3.0], [4.0]])
    padded, back = operators.reference(values, np.array([0, 3, 3, 4]), 2, pad=7)
    assert padded[..., 0].tolist() == [[1, 2], [7, 7], [4, 7]]
    assert back[:, 0].tolist() == [1, 2, 0, 4]  # the third value was cut off


def test_comparisons_hold_for_stock_fbgemm_where_it_can():
    """The same cases on the CPU: the reference agrees with an implementation that is not ours."""
    import torch

    from gr_model.jagged import load_operators

    load_operators(torch.device("cpu"))
    cases = operators.comparisons(torch.device("cpu"))
    checked = 0
    while True:
        try:
            what, actual, expected = next(cases)
        except StopIteration:
            break
        except RuntimeError as error:  # stock fbgemm refuses some dtypes and shapes that ours take
            assert "not implemented for" in str(error) or "unsupported number of jagged dim" in str(error)
            break
        np.testing.assert_array_equal(actual.numpy(), expected, err_msg=what)
        checked += 1
    assert checked >= 2
