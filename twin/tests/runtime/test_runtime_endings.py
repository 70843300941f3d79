"""How a process that uses the device ends: by exception, sys.exit, SIGTERM, Ctrl-C; with workers of a DataLoader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conftest import TIMEOUT, Scenario

pytestmark = pytest.mark.twin

# Work on a second device and a side stream is in flight when the end comes.
BUSY = """
import signal, sys, torch
x = torch.ones(256, 256, device="npu:1", requires_grad=True)
weight = torch.nn.Linear(256, 256).to("npu:1")
side = torch.npu.Stream(device="npu:1")
def work():
    with torch.npu.stream(side):
        weight(x).sum().backward()
for _ in range(20):
    work()
"""
# Importing torch_npu calls nothing of the runtime, so what is forked behind it is a process like any other: one import
# serves every case.
PARENT = """
import json, os, sys, torch, torch_npu
folder, cases = sys.argv[1], json.loads(sys.argv[2])
codes = []
for number, (queue, text) in enumerate(cases):
    child = os.fork()
    if child == 0:
        os.environ["TASK_QUEUE_ENABLE"] = queue
        out = os.open(f"{folder}/{number}.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1), os.dup2(out, 2)
        exec(text, {"__name__": "__main__"})
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
ENDINGS = {
    "exit": ("sys.exit(3)", 3, ""),
    "exception": ("raise ValueError('on purpose')", 1, "ValueError: on purpose"),
    "interrupt": ("import os; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
    "terminated": ("import os; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    "handled": (
        "import os; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); os.kill(os.getpid(), signal.SIGTERM)",
        5,
        "",
    ),
}
QUEUES = ("0", "1", "2")


@pytest.fixture(scope="module")
def ended(lib64: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, str]]:
    """(ending, TASK_QUEUE_ENABLE) -> the exit code of its process, and all that it printed."""
    folder = tmp_path_factory.mktemp("endings")
    names = [(name, queue) for name in ENDINGS for queue in QUEUES]
    cases = json.dumps([(queue, BUSY + ENDINGS[name][0]) for name, queue in names])
    settings = {"LD_LIBRARY_PATH": str(lib64), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PARENT, str(folder), cases],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout.splitlines()[-1])
    return {name: (codes[i], (folder / f"{i}.txt").read_text()) for i, name in enumerate(names)}


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_is_the_programs_own(ended: dict[tuple[str, str], tuple[int, str]], ending: str, queue: str) -> None:
    _, code, text = ENDINGS[ending]
    found, printed = ended[ending, queue]
    assert found == code, printed
    assert text in printed
    assert "core dumped" not in printed and "terminate called" not in printed


def test_an_error_on_the_device_does_not_hang_the_exit(scenario: Scenario) -> None:
    done = scenario(
        """
        import torch, torch_npu
        x = torch.rand(1, 4, 2, 2).npu()
        try:
            torch_npu.npu_mish(x)  # nothing provides it: the stream has failed at the end
        except RuntimeError:
            pass  # or torch_npu has noticed already
        """,
        code=0,
        TWIN_ATEN="aclnn",
    )
    assert "legacy operator Mish is not emulated" in done.stderr


# spawn imports the program anew in each worker, so it has to be a file.
LOADER = """
import sys, torch, torch_npu
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((8,), float(index))

class OnDevice(Squares):
    def __getitem__(self, index):
        return (torch.full((8,), float(index)).npu() + 1).cpu()  # a spawned worker may use the device

if __name__ == "__main__":
    method, data = sys.argv[1], {"plain": Squares, "device": OnDevice}[sys.argv[2]]()
    weight = torch.ones(8, device="npu")
    (weight + 1).sum().item()  # in use before the workers start
    loader = DataLoader(
        data, batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True, multiprocessing_context=method
    )
    for epoch in range(2):
        total = sum((batch.npu(non_blocking=True) * weight).sum().item() for batch in loader)
        assert total == 8 * 2016 + (512 if sys.argv[2] == "device" else 0), total
    next(iter(loader))
    raise SystemExit(4)  # with workers alive
"""


@pytest.mark.parametrize(("method", "data"), [("fork", "plain"), ("spawn", "device")])
def test_data_loader_workers(lib64: Path, tmp_path: Path, method: str, data: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(LOADER)
    settings = {"LD_LIBRARY_PATH": str(lib64), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(program), method, data]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 4, done.stderr


def test_a_forked_worker_that_uses_the_device_is_told(scenario: Scenario) -> None:
    done = scenario(
        textwrap.dedent("""
        import os, torch, torch_npu
        torch.ones(3, device="npu").sum().item()
        child = os.fork()
        if child == 0:
            try:
                torch.npu.synchronize()
            except RuntimeError as error:
                print(error, flush=True)
                os._exit(6)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
        """)
    )
    assert "fork" in done.stdout
