"""The unmodified torch_npu wheel on the twin: devices, tensors, streams, memory, errors, exit, fork."""

from __future__ import annotations

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin

BASICS = """
import torch, torch_npu
assert torch.npu.is_available() and torch.npu.device_count() == 2
properties = torch.npu.get_device_properties(0)
assert (properties.name, properties.cube_core_num, properties.vector_core_num) == ("Ascend910B2", 24, 48)

a = torch.arange(6.0).view(2, 3).npu()
assert (a + a).tolist() == [[0, 2, 4], [6, 8, 10]]
assert (a @ a.t()).tolist() == [[5, 14], [14, 50]]
assert a.t().contiguous().cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
b = a.to("npu:1")
assert b.device == torch.device("npu:1") and (b * 2).sum().item() == 30
assert b.to("npu:0").add(a).sum().item() == 30

weight = torch.tensor([1.0, -2.0], device="npu", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.25)
(weight * weight).sum().backward()
optimizer.step()
assert weight.tolist() == [0.5, -1.0]

stream, start, end = torch.npu.Stream(), torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
x = torch.full((256, 256), 1.0, device="npu")
stream.wait_stream(torch.npu.current_stream())
with torch.npu.stream(stream):
    start.record()
    for _ in range(10):
        x = (x @ torch.eye(256, device="npu")) + 1
    end.record()
torch.npu.current_stream().wait_event(end)
assert (x * 2).eq(22).all().item()
end.synchronize()
assert end.query() and stream.query() and start.elapsed_time(end) > 0

pinned = torch.arange(1000.0).pin_memory()
assert pinned.is_pinned() and pinned.npu(non_blocking=True).sum().item() == 499500
out = torch.empty(1000).pin_memory()
out.copy_(pinned.npu() * 2, non_blocking=True)
torch.npu.synchronize()
assert out.sum().item() == 999000
"""


@pytest.mark.parametrize("aten", ["override", "aclnn"])
@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_basics_with_each_task_queue(scenario: Scenario, queue: str, aten: str) -> None:
    scenario(BASICS, TASK_QUEUE_ENABLE=queue, TWIN_ATEN=aten)


IDLE = """
import ctypes, pathlib, threading, torch, torch_npu
assert torch.ones(3).npu().sum().item() == 3
threads = {task.joinpath("comm").read_text().strip() for task in pathlib.Path("/proc/self/task").iterdir()}
assert "release_thread" in threads, threads  # the one that asks all the time, begun after aclInit as this one is
PR_GET_TIMERSLACK, slack = 30, []
thread = threading.Thread(target=lambda: slack.append(ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK)))
thread.start()
thread.join()
assert slack == [1_000_000]
"""


def test_a_thread_that_asks_all_the_time_asks_a_thousand_times_a_second(scenario: Scenario) -> None:
    scenario(IDLE, TASK_QUEUE_ENABLE="1")


def test_basics_with_the_older_toolkit(scenario: Scenario) -> None:
    # Below 8.3.RC1 torch_npu sets the device eagerly; the other tests run at 8.3.RC1.
    scenario(BASICS, TWIN_CANN_VERSION="8.2.RC1")


def test_importing_touches_no_device(scenario: Scenario) -> None:
    done = scenario("import torch, torch_npu", alone=True, TWIN_LOG="info")
    assert "emulated NPU" not in done.stderr


def test_import_names_a_missing_library(scenario: Scenario) -> None:
    done = scenario("import torch", code=1, LD_LIBRARY_PATH="/nonexistent", TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    assert "libhccl.so" in done.stderr
    scenario("import torch", LD_LIBRARY_PATH="/nonexistent", TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_out_of_memory_raises_and_recovers(scenario: Scenario) -> None:
    scenario(
        """
        import torch, torch_npu
        free, total = torch.npu.mem_get_info()
        assert total == 64 << 20 and free <= total
        held = []
        try:
            while True:
                held.append(torch.empty(8 << 20, dtype=torch.uint8, device="npu"))
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        assert 6 <= len(held) <= 8, len(held)
        assert torch.npu.mem_get_info()[0] < 16 << 20
        held.clear()
        torch.npu.empty_cache()
        assert torch.npu.mem_get_info()[0] >= 48 << 20
        # Fits only when the cache of small blocks was given back: torch_npu frees it and asks again.
        small = [torch.empty(2 << 20, dtype=torch.uint8, device="npu") for _ in range(24)]
        small.clear()
        assert torch.ones(40 << 20, dtype=torch.uint8, device="npu")[-1].item() == 1
        """,
        TWIN_NPU_MEMORY=str(64 << 20),
    )


def test_memory_does_not_leak(scenario: Scenario) -> None:
    scenario("""
        import torch, torch_npu
        x = torch.ones(1000, device="npu")
        for _ in range(2000):
            y = x + 1
        torch.npu.synchronize()
        assert torch.npu.memory_allocated() < 1 << 20
        assert torch.npu.memory_reserved() <= 4 << 20, torch.npu.memory_reserved()
    """)


def test_memory_statistics_follow_the_tensors(scenario: Scenario) -> None:
    scenario("""
        import torch, torch_npu
        size = 4 << 20
        torch.empty(1, device="npu:1")
        start = [torch.npu.memory_allocated(d) for d in (0, 1)]
        x = torch.empty(size, dtype=torch.uint8, device="npu:0")
        held = torch.npu.memory_allocated(0)  # torch_npu adds 32 bytes and rounds up to 512
        assert start[0] + size <= held <= start[0] + size + 512
        assert torch.npu.memory_allocated(1) == start[1]
        assert torch.npu.memory_stats(0)["allocated_bytes.all.current"] == held
        free = torch.npu.mem_get_info(0)[0]
        del x
        assert torch.npu.memory_allocated(0) == start[0]
        assert torch.npu.max_memory_allocated(0) == held
        torch.npu.reset_peak_memory_stats(0)
        assert torch.npu.max_memory_allocated(0) == start[0]
        assert torch.npu.memory_reserved(0) >= size and torch.npu.mem_get_info(0)[0] == free  # cached
        torch.npu.empty_cache()
        assert torch.npu.mem_get_info(0)[0] >= free + size
    """)


def test_bad_device_is_named(scenario: Scenario) -> None:
    done = scenario('import torch, torch_npu; torch.ones(1, device="npu:7")', code=1)
    assert "aclrtSetDevice(deviceId=7): there are 2 visible devices" in done.stderr
    assert "RuntimeError" in done.stderr


@pytest.mark.parametrize("queue", ["0", "1"])
def test_a_missing_operator_is_named(scenario: Scenario, queue: str) -> None:
    # On the pure aclnn path nothing provides npu_mish.
    done = scenario(
        """
        import torch, torch_npu
        torch_npu.npu_mish(torch.rand(4).npu())
        torch.npu.synchronize()
        """,
        code=1,
        TASK_QUEUE_ENABLE=queue,
        TWIN_ATEN="aclnn",
    )
    assert "legacy operator Mish is not emulated" in done.stderr
    assert "RuntimeError" in done.stderr and "aclopCompileAndExecute(opType=Mish)" in done.stderr


def test_what_is_not_emulated_is_reported_as_missing(scenario: Scenario) -> None:
    scenario("""
        import torch, torch_npu
        x = torch.ones(2, device="npu")
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                x + 1
        except RuntimeError as error:
            assert "aclmdlRICaptureBegin" in str(error), error
        else:
            raise AssertionError("graph capture did not fail")
    """)


@pytest.mark.parametrize(
    ("ending", "code"), [("import sys; sys.exit(3)", 3), ("raise ValueError('on purpose')", 1), ("pass", 0)]
)
def test_exit_codes_are_kept(scenario: Scenario, ending: str, code: int) -> None:
    # Tensors, a second device, a side stream with work and a live thread are there while the process ends.
    done = scenario(
        f"""
        import threading, time, torch, torch_npu
        x = torch.ones(512, 512, device="npu:1")
        with torch.npu.stream(torch.npu.Stream(device="npu:1")):
            for _ in range(20):
                y = x @ x
        ready = threading.Event()
        def forever():
            z = torch.ones(4, device="npu:0")
            ready.set()  # Python may not end a daemon thread inside an operator: that aborts on any backend
            while True:
                time.sleep(0.001)
        threading.Thread(target=forever, daemon=True).start()
        ready.wait()
        {ending}
        """,
        code=code,
    )
    assert ("on purpose" in done.stderr) == (code == 1)


def test_four_threads_on_the_second_device(scenario: Scenario) -> None:
    scenario("""
        import threading, torch, torch_npu
        results = {}
        def work(i):
            torch.npu.set_device(1)
            x = torch.full((64,), float(i), device="npu", requires_grad=True)
            (x * x).sum().backward()  # autograd has threads of its own
            results[i] = (x.grad.sum().item(), str(x.device))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert results == {i: (128.0 * i, "npu:1") for i in range(4)}, results
    """)


def test_data_loader_with_forked_workers(scenario: Scenario) -> None:
    scenario("""
        import torch, torch_npu
        from torch.utils.data import DataLoader, TensorDataset
        weight = torch.ones(8, device="npu")  # the device is in use before the workers are forked
        (weight + 1).sum().item()
        data = TensorDataset(torch.arange(64.0).view(64, 1).expand(64, 8).contiguous())
        for epoch in range(2):
            loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context="fork")
            total = sum((batch.npu(non_blocking=True) * weight).sum().item() for (batch,) in loader)
            assert total == 8 * 2016, total
    """)
