"""The kernels pass Triton's compiler, which is not there in a process that interprets them."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_for_hopper(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    program = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    compiled = re.fullmatch(r"(\d+) kernels compiled\n", done.stdout)
    assert compiled is not None and int(compiled[1]) >= 34
