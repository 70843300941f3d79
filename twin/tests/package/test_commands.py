"""`python -m ascend_twin` in a plain virtual environment, by a user who is not root."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import NOBODY, Environment

pytestmark = pytest.mark.twin

TRAIN = """
import os, torch, torch_npu
assert os.geteuid() == {user}
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1)).to("npu:0")
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
batch = torch.randn(64, 8)
target = batch.sum(1, keepdim=True).to("npu:0")
batch = batch.to("npu:0")
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(batch), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses[0], losses[-1], next(model.parameters()).device)
"""


def test_training_runs_without_root(environment: Environment) -> None:
    user = NOBODY if environment.user else os.geteuid()
    assert user != 0 or not Path("/opt/grstack/venv").exists(), "in the image another user is there for the test"
    done = environment.twin("run", "python", "-c", TRAIN.format(user=user))
    first, last, device = done.stdout.split()
    assert device == "npu:0"
    assert float(last) < 0.5 * float(first)


def test_run_takes_options_and_keeps_the_exit_code(environment: Environment) -> None:
    ask = "import torch, torch_npu, sys; print(torch.npu.device_count(), torch.npu.get_device_name(0)); sys.exit(3)"
    done = environment.twin("run", "--devices", "4", "--soc", "Ascend910B3", "python", "-c", ask, code=3)
    assert done.stdout == "4 Ascend910B3\n"
    ask = "import os; print(os.environ.get('TWIN_LOG'))"  # what silences the check of the settings goes no further
    assert environment.twin("run", "python", "-c", ask).stdout == "None\n"
    assert "argument --devices: x is not a positive number" in environment.twin("run", "--devices", "x", code=2).stderr
    assert "run what" in environment.twin("run", code=2).stderr
    assert "no such command" in environment.twin("run", "no-such-program", code=127).stderr


def test_run_is_replaced_by_the_command(environment: Environment) -> None:
    """A signal to the process is a signal to the command: no wrapper is left between them."""
    sleeper = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(1, flush=True)"
    process = subprocess.Popen(
        [str(environment.python), "-m", "ascend_twin", "run", "python", "-c", f"{sleeper}; time.sleep(60)"],
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 7


def test_env_makes_a_shell_find_everything(environment: Environment) -> None:
    ask = "python -c 'import torch, torch_npu; print(torch.npu.device_count())' && npu-smi info -l"
    done = environment.run("bash", "-c", f'eval "$({environment.python} -m ascend_twin env)" && {ask}')
    count, *listing = done.stdout.splitlines()
    assert count == "2"
    assert listing[0] == "Total Count : 2"
    # nothing is added twice
    twice = f'eval "$({environment.python} -m ascend_twin env)"; ' * 2 + "echo $LD_LIBRARY_PATH; echo $PATH"
    libraries, path = environment.run("bash", "-c", twice).stdout.split()
    assert libraries == str(environment.packages / "ascend_twin/home/lib64")
    assert len(path.split(":")) == len(set(path.split(":")))


def test_info_says_that_it_is_emulated(environment: Environment) -> None:
    done = environment.twin("info", TWIN_NPU_COUNT="3", TWIN_NPU_MEMORY=str(1 << 30))
    assert done.stdout.startswith("emulated Ascend platform: correctness, not speed\n")
    assert done.stdout.count("(emulated), 1024 MiB a process") == 3
    data = json.loads(environment.twin("info", "--json").stdout)
    assert data["emulated"] is True
    assert data["packages"] == {"torch": data["packages"]["torch"], "torch_npu": "2.6.0.post3"}
    assert [device["name"] for device in data["devices"]] == ["Ascend910B2"] * 2
    assert data["cann"] == "8.3.RC1"
    data = json.loads(environment.twin("info", "--json", TWIN_CANN_VERSION="8.2.RC1").stdout)
    assert data["cann"] == "8.2.RC1"
    assert "TWIN_NPU_COUNT='many' is not" in environment.twin("info", code=1, TWIN_NPU_COUNT="many").stderr


def test_selftest_passes(environment: Environment) -> None:
    done = environment.twin("selftest")
    assert done.stdout.startswith("emulated NPU")
    assert done.stdout.count("\nok ") == 5


def test_selftest_with_options_is_the_conformance_run(environment: Environment) -> None:
    done = environment.twin("selftest", "--ops", "logaddexp", "--dtypes", "float32", "--jobs", "1")
    found = re.search(r"emulated NPU against CPU: (\d+) of (\d+) samples pass", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) == int(found[2]) > 1
    assert "no_such_operator" in environment.twin("selftest", "--ops", "no_such_operator", code=2).stderr
    assert "--full" in environment.twin("selftest", "--help").stdout


def test_without_torch_the_next_command_is_told(environment: Environment) -> None:
    settings = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(environment.packages)}
    command = [str(environment.python), "-S", "-m", "ascend_twin"]  # -S: the wheel is there, torch is not
    info = subprocess.run([*command, "info"], env=settings, capture_output=True, text=True, check=True)
    assert "torch         not installed  (made for 2.6.0)" in info.stdout
    assert "next: pip install torch==2.6.0" in info.stdout
    smoke = [str(environment.python), "-S", "-m", "ascend_twin.smoke"]
    done = subprocess.run(smoke, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "torch 2.6.0 is wanted, none is installed" in done.stderr
    assert "pip install --no-deps torch_npu==2.6.0.post3" in done.stderr


def test_npu_smi_lists_processes_and_refuses_the_rest(environment: Environment) -> None:
    smi = str(environment.packages / "ascend_twin/home/bin/npu-smi")
    worker = subprocess.Popen(
        [str(environment.python), "-m", "ascend_twin", "run", "python", "-c"]
        + ["import torch, torch_npu; torch.ones(1).npu(); print(1, flush=True); import time; time.sleep(60)"],
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "1\n"
        shown = subprocess.run([smi, "info"], capture_output=True, text=True, check=True, timeout=60).stdout
        assert "emulated NPUs on a CPU" in shown
        assert shown.count("| emulated ") == 2
        assert f"{worker.pid}  python" in shown
    finally:
        worker.kill()
        worker.wait()
    assert str(worker.pid) not in environment.run(smi, "info").stdout
    assert (
        "Chip Name   : Ascend910B4 (emulated)" in environment.run(smi, "info", "-l", TWIN_NPU_SOC="Ascend910B4").stdout
    )
    assert "nothing else is emulated" in environment.run(smi, "set", "-t", "reset", code=2).stderr


def test_a_home_that_is_missing_is_told(tmp_path: Path, environment: Environment) -> None:
    shutil.copytree(
        environment.packages / "ascend_twin", tmp_path / "ascend_twin", ignore=shutil.ignore_patterns("home")
    )
    command = [str(environment.python), "-m", "ascend_twin", "env"]
    settings = {"PATH": "/usr/bin", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no emulated Ascend home" in done.stderr
    named = {**settings, "ASCEND_HOME_PATH": str(environment.packages / "ascend_twin/home")}
    assert subprocess.run(command, env=named, capture_output=True, check=False).returncode == 0
