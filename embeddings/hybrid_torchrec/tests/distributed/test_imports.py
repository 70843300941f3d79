"""Importing the packages starts no process; torch.compile works all the same."""

import os
import subprocess
import sys

PROGRAM = """
import os
from pathlib import Path


def children():
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue  # has ended
        if int(rest.split()[1]) == os.getpid():
            found.append(name)
    return found


import torch
import torchrec
import hybrid_torchrec.distributed
import torchrec_embcache.distributed

assert children() == [], children()
"""
COMPILED = """
doubled = torch.compile(lambda x: (2 * x + 1).relu())
given = torch.tensor([-3.0, 0.5])
assert torch.equal(doubled(given), torch.tensor([0.0, 2.0]))
from torch._dynamo.utils import counters
assert counters["stats"]["unique_graphs"] == 1 and counters["inductor"]
"""


def run(program: str) -> None:
    """As a user's program in the image: without what the suites set for themselves."""
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_COMPILE_THREADS"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_imports_start_no_process_and_torch_compile_works() -> None:
    run(PROGRAM + COMPILED)
