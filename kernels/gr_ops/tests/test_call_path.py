"""The aclnn call: lookup order, ownership, the task queue, streams, devices. A process for each environment."""

import gc
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

Run = Callable[..., subprocess.CompletedProcess[str]]
LIBRARY = "op_api/lib/libcust_opapi.so"
CUMSUM = """
    import torch, torch_npu, gr_ops
    print(torch.ops.mxrec.asynchronous_complete_cumsum(torch.tensor([2, 3]).npu()).tolist())
"""


def installed_vendor(operator: str, kind: str = "AsynchronousCompleteCumsum") -> Path:
    """The vendor directory that this environment's search finds the operator in."""
    places = [Path(entry) for entry in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if entry]
    opp = os.environ.get("ASCEND_OPP_PATH")
    if opp:
        places.append(Path(opp) / "vendors" / f"mxrec_{operator}")
    for place in places:
        library = place / LIBRARY
        if library.is_file() and f"aclnn{kind}GetWorkspaceSize".encode() in library.read_bytes():
            return place
    raise AssertionError(f"no vendor with {operator} in {places}")


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A copy of the cumsum operator's package, owned by the user that runs."""
    copy = tmp_path / "opp dir/vendors/mxrec_copy"
    source = installed_vendor("asynchronous_complete_cumsum")
    (copy / LIBRARY).parent.mkdir(parents=True)
    shutil.copy(source / LIBRARY, copy / LIBRARY)
    shutil.copy(source / "version.info", copy)
    return copy


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_order_with_torch_npus_own_operators(forked_process: Run, queue: str) -> None:
    script = """
        import torch, torch_npu, gr_ops
        ops = torch.ops.mxrec
        offsets = [torch.tensor([0, 2, 5, 6]).npu()]
        x = torch.arange(1., 13.).view(6, 2).npu()
        for _ in range(50):  # each step reads what the one before wrote
            x = ops.dense_to_jagged_forward(ops.jagged_to_padded_dense(x + 1, offsets, [3]) * 2, offsets, 6) / 2
        assert x.cpu().equal(torch.arange(1., 13.).view(6, 2) + 50), x
        y = ops.jagged_to_padded_dense(x[1:3], [torch.tensor([0, 1, 2]).npu()[:2]], [1])  # storage offset
        assert y.tolist() == [[[53., 54.]]], y
        lengths = torch.tensor([2, 3, 1, 4]).npu()
        for _ in range(200):
            offs = ops.asynchronous_complete_cumsum(lengths + 0)
        assert offs.tolist() == [0, 2, 5, 6, 10]
        v = torch.ones(6, 2, device='npu:0', requires_grad=True)
        for _ in range(20):
            v.grad = None
            (ops.jagged_to_padded_dense(v * 1.0, offsets, [2]) * 3).sum().backward()
        assert v.grad.cpu().flatten().tolist() == [3.] * 8 + [0., 0., 3., 3.]
        print('queue ok')
    """
    result = forked_process(script, TASK_QUEUE_ENABLE=queue)
    assert result.stdout.strip().endswith("queue ok"), result.stderr


def test_streams_and_second_device() -> None:
    cumsum = torch.ops.mxrec.asynchronous_complete_cumsum
    side = torch.npu.Stream()
    x = torch.arange(1, 5).npu()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = cumsum(x * 2)
    torch.npu.current_stream().wait_stream(side)
    assert (y + 1).tolist() == [1, 3, 7, 13, 21]
    assert torch.npu.current_device() == 0
    z = cumsum(torch.arange(1, 5).to("npu:1"))
    assert z.device == torch.device("npu:1") and z.tolist() == [0, 1, 3, 6, 10]
    assert torch.npu.current_device() == 0


@pytest.fixture
def nothing_else_is_freed() -> Iterator[None]:
    """What other tests have left would else be collected between two looks at the memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_memory_stays_flat(nothing_else_is_freed: None) -> None:
    offsets = [torch.tensor([0, 2, 5, 6]).npu()]
    v = torch.ones(6, 2, device="npu:0")

    def step() -> int:
        for _ in range(300):
            d = torch.ops.mxrec.jagged_to_padded_dense(v, offsets, [2])
        torch.npu.synchronize()
        assert d.shape == (3, 2, 2)
        return torch.npu.memory_allocated()

    assert len({step(), step()}) == 1


def test_a_waiting_call_holds_no_workspace(nothing_else_is_freed: None) -> None:
    """Memory allocated right after each call, while calls wait in torch_npu's queue: none but the result's."""
    rows = torch.tensor([7]).npu()
    given = [torch.tensor(v).npu() for v in ([1, 2, 3], [0, 3], [0])]

    def call() -> int:
        torch.ops.mxrec.bounds_check_indices(rows, given[0], given[1], 1, given[2])
        return torch.npu.memory_allocated()

    torch.npu.synchronize()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    call()
    assert torch.npu.max_memory_allocated() > before + (1 << 20), "this operator should have a workspace"
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    assert {call() for _ in range(200)} == {before}


def test_missing_operator_names_libraries_and_variable(forked_process: Run, tmp_path: Path) -> None:
    result = forked_process(
        CUMSUM, ASCEND_CUSTOM_OPP_PATH=str(tmp_path / "none"), ASCEND_OPP_PATH=None, ASCEND_HOME_PATH=None
    )
    assert result.returncode == 1
    for text in (
        "aclnnAsynchronousCompleteCumsumGetWorkspaceSize was not found",
        f"{tmp_path}/none/{LIBRARY}: not there",
        "ASCEND_OPP_PATH is not set",
        "libopapi.so: loaded",
        "mxrec_opp_<op>.run",
    ):
        assert text in result.stderr


def test_custom_path_skips_empty_and_missing_entries(forked_process: Run, vendor: Path, tmp_path: Path) -> None:
    result = forked_process(
        CUMSUM, ASCEND_CUSTOM_OPP_PATH=f":{tmp_path}/none:{vendor}:", ASCEND_OPP_PATH=None, ASCEND_HOME_PATH=None
    )
    assert result.stdout.strip().endswith("[0, 2, 5]"), result.stderr


@pytest.mark.parametrize("says", ["nothing", "another", "no file"])
def test_a_package_of_another_release_is_refused(forked_process: Run, vendor: Path, says: str) -> None:
    """It would take other arguments for these, without an error. Each call raises; what it does not serve works."""
    info = vendor / "version.info"
    lines = [line for line in info.read_text().splitlines() if not line.startswith("interface=")]
    info.write_text("\n".join([*lines, *(["interface=0123456789ab"] if says == "another" else [])]) + "\n")
    if says == "no file":
        info.unlink()
    script = """
        import torch, torch_npu, gr_ops
        lengths = torch.tensor([2, 3]).npu()
        for _ in range(2):
            try:
                torch.ops.mxrec.asynchronous_complete_cumsum(lengths)
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        print(torch.ops.mxrec.gather_for_rank1(lengths, torch.tensor([1]).npu()).tolist())
    """
    path = f"{vendor}:{os.environ.get('ASCEND_CUSTOM_OPP_PATH', '')}"
    result = forked_process(script, ASCEND_CUSTOM_OPP_PATH=path)
    first, second, last = result.stdout.strip().splitlines()[-3:]
    assert (second, last) == (first, "[3]"), result.stdout + result.stderr
    package = "none, version none" if says == "no file" else "mxrec_opp_asynchronous_complete_cumsum, version 0.1.0"
    assert first.startswith(
        f"aclnnAsynchronousCompleteCumsum: the operator package in {vendor} ({package}) is of another release than "
        "this gr_ops; expected interface "
    )
    assert first.endswith(
        f", got {'0123456789ab' if says == 'another' else 'none'}. Install the packages of this release: "
        "make install-ops, or bash mxrec_opp_asynchronous_complete_cumsum.run"
    )


def test_a_package_in_a_relative_place(forked_process: Run, vendor: Path) -> None:
    """Its version.info is found from another working directory too."""
    script = f"""
        import os
        os.chdir({str(vendor.parent)!r})
        import torch, torch_npu, gr_ops
        torch.ops.mxrec.asynchronous_complete_cumsum(torch.tensor([[2.5]]).npu())
        os.chdir("/")
        print(torch.ops.mxrec.gather_for_rank1(torch.tensor([2, 3]).npu(), torch.tensor([1]).npu()).tolist())
    """
    gather = vendor.parent / "mxrec_gather"
    shutil.copytree(installed_vendor("gather_for_rank1", "GatherForRank1"), gather)
    path = "mxrec_copy:mxrec_gather"
    result = forked_process(script, ASCEND_CUSTOM_OPP_PATH=path, ASCEND_OPP_PATH=None, ASCEND_HOME_PATH=None)
    assert result.stdout.strip().endswith("[3]"), result.stderr


def test_vendors_of_the_priority_list(forked_process: Run, vendor: Path) -> None:
    opp = vendor.parent.parent
    (vendor.parent / "config.ini").write_text("# comment\nload_priority=absent, mxrec_copy\n")
    result = forked_process(CUMSUM, ASCEND_OPP_PATH=str(opp), ASCEND_CUSTOM_OPP_PATH=None, ASCEND_HOME_PATH=None)
    assert result.stdout.strip().endswith("[0, 2, 5]"), result.stderr
    (vendor.parent / "config.ini").write_text("load_priority=absent\n")
    result = forked_process(CUMSUM, ASCEND_OPP_PATH=str(opp), ASCEND_CUSTOM_OPP_PATH=None, ASCEND_HOME_PATH=None)
    assert result.returncode == 1 and "absent/op_api/lib/libcust_opapi.so: not there" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="changes owners, which root alone may")
def test_root_does_not_load_another_users_library(forked_process: Run, vendor: Path) -> None:
    os.chown(vendor / LIBRARY, pwd.getpwnam("nobody").pw_uid, -1)
    result = forked_process(CUMSUM, ASCEND_CUSTOM_OPP_PATH=str(vendor), ASCEND_OPP_PATH=None, ASCEND_HOME_PATH=None)
    assert result.returncode == 1
    assert "owned by user" in result.stderr and "skipped" in result.stderr


def test_import_without_the_npu(fresh_process: Run) -> None:
    script = """
        import torch, gr_ops
        assert not gr_ops.npu_loaded()
        assert torch.ops.mxrec.asynchronous_complete_cumsum(torch.empty(3, device='meta')).shape == (4,)
        print('cpu ok')
    """
    result = fresh_process(script, TORCH_DEVICE_BACKEND_AUTOLOAD="0", LD_LIBRARY_PATH=None)
    assert result.stdout.strip().endswith("cpu ok"), result.stderr


def test_without_fbgemm_its_operators_exist(fresh_process: Run) -> None:
    script = """
        import importlib.util, sys
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name == 'fbgemm_gpu' else find(name, package)
        import torch, torch_npu, gr_ops
        assert 'fbgemm_gpu' not in sys.modules
        v = torch.arange(1., 7.).npu()
        o = [torch.tensor([0, 2, 5, 6]).npu()]
        assert torch.ops.fbgemm.jagged_to_padded_dense(v, o, [2]).tolist() == [[1, 2], [3, 4], [6, 0]]
        assert torch.ops.fbgemm.jagged_to_padded_dense.v2(v, o, [2]).tolist() == [[1, 2], [3, 4], [6, 0]]
        print('no fbgemm ok')
    """
    result = fresh_process(script)
    assert result.stdout.strip().endswith("no fbgemm ok"), result.stderr
