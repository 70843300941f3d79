"""`pip install ./gr_model` into an environment of its own, where none of the repository's other packages is."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from gr_model.tests import own_files

PACKAGE = Path(__file__).resolve().parents[1]
OTHERS = ("gr_ops", "hybrid_torchrec", "torchrec_embcache", "torchrec", "fbgemm_gpu", "torch_npu", "triton")
# The environment sees our torch, NumPy and PyArrow, which take gigabytes; the packages above are hidden from it.
PROGRAM = f"""
import sys
for name in {OTHERS}:
    sys.modules[name] = None
import gr_model
from gr_model.train import main
print(gr_model.__file__)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("plain") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")  # looked at after the environment's own
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--ignore-installed", str(PACKAGE)], check=True)
    return place


@pytest.mark.slow
def test_the_small_model_trains_two_steps(environment: Path, tmp_path: Path) -> None:
    path = own_files.write(tmp_path / "mine.csv", own_files.rows())
    options = ["--config", "smoke", f"data.path={path}", "data.time_unit=ms", "train.steps=2"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(environment / "bin/python"), "-c", PROGRAM, *options, "--data-dir", "data", "--out", "run"],
        cwd=tmp_path,
        env={**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(environment)), "another gr_model was imported"
    assert {"report.html", "metrics.json", "items.parquet"} <= {each.name for each in (tmp_path / "run").iterdir()}


def test_the_wheel_has_the_package_and_what_it_needs(tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(PACKAGE / 'build_backend')!r}); import wheel_backend as w; "
    program += "print(w.build_wheel(sys.argv[1]))"
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / ran.stdout.strip()) as wheel:
        names = set(wheel.namelist())
        (distribution,) = importlib.metadata.distributions(path=[str(tmp_path / ran.stdout.strip())])
    sources = {f"gr_model/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")}
    packed = {name for name in sources if "/tests/" not in name and "/build_backend/" not in name}
    assert {name for name in names if name.startswith("gr_model/")} == {*packed, "gr_model/report/report.css"}
    needs = distribution.requires or []
    assert {"torch>=2.6", "numpy", "pyarrow>=15", "pyyaml"} == {need for need in needs if "extra" not in need}
    assert 'optuna>=4; extra == "sweeps"' in needs
