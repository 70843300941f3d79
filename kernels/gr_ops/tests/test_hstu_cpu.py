"""What holds of the CPU kernels alone: instruction sets, threads, memory."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hstu_cases import Case, Problem, check

FEATURES = {
    "avx2": ("avx2", "fma", "f16c"),
    "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "avx512_bf16": ("avx512_bf16",),
    "amx": ("amx_tile", "amx_bf16"),
}


def instruction_sets() -> list[str]:
    """Those that this processor has, the least first."""
    text = Path("/proc/cpuinfo").read_text()
    flags = set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())
    sets = ["baseline"]
    for name, needed in FEATURES.items():
        if not flags.issuperset(needed):
            break
        sets.append(name)
    return sets


def run(script: str, **variables: str) -> str:
    """In a process of its own: the instruction set and the number of threads are read once."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


CASES = """
    import gr_ops, hashlib, torch
    from hstu_cases import Case, Problem, check
    cases = [
        Case((130, 0, 1, 97), 2, dim, 24, dtype, mask_type=mask, bias=(True, False), seed=dim + mask)
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        for mask in range(4) for dim in (1, 19, 64)
    ]
    cases += [Case((150, 40), 3, 16, 16, dtype, context=(20, 0), target=(30, 40), group=3)
              for dtype in (torch.float32, torch.bfloat16)]
"""


@pytest.mark.parametrize("name", instruction_sets())
def test_every_instruction_set_agrees_with_the_reference(name: str) -> None:
    assert run(CASES + "    for case in cases: check(case, 'cpu')\n    print(len(cases))", GR_OPS_ISA=name) == "50\n"


# Elements beyond whole vectors, few enough to be summed by themselves: of keys, of values, of both; 8 or 16 lanes and 4
# or 8. 4 x 64 floats lie a multiple of 1,024 bytes apart, others not.
TAILS = """
    import gr_ops, hashlib, torch
    from hstu_cases import Case, Problem, check
    sizes = ((2, 50, 24), (1, 24, 50), (2, 17, 20), (3, 18, 34), (1, 10, 19), (4, 64, 64), (1, 36, 9))
    cases = [
        Case((130, 0, 1, 97, 70), heads, dim, value_dim, dtype, mask_type=mask, seed=dim)
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        for heads, dim, value_dim in sizes for mask in (0, 2)
    ]
"""


@pytest.mark.parametrize("name", instruction_sets())
def test_elements_beyond_whole_vectors(name: str) -> None:
    assert run(TAILS + "    for case in cases: check(case, 'cpu')\n    print(len(cases))", GR_OPS_ISA=name) == "56\n"


def test_unknown_instruction_set_is_refused() -> None:
    script = """
        import gr_ops, torch
        try:
            torch.ops.mxrec.hstu_dense(*[torch.zeros(1, 1, 1, 1)] * 3)
        except RuntimeError as error:
            print(error)
    """
    assert 'GR_OPS_ISA: this processor does not have "sse9"' in run(script, GR_OPS_ISA="sse9")


def test_numbers_of_threads_give_the_same_bits() -> None:
    """5 threads split the heads of the skewed batch into parts, 1 does not; a shared bias is summed in one order."""
    script = (
        CASES
        + """
    cases += [Case((900, *[1] * 10), 2, 16, 16, dtype, bias=bias)
              for dtype in (torch.float32, torch.bfloat16) for bias in (None, (True, True), (False, False))]
    cases += [Case((900, *[1] * 10), 2, 50, 34), Case((900, *[1] * 10), 2, 18, 19, torch.float64)]
    reference = None
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        digest = hashlib.sha256()
        for case in cases:
            for tensor in Problem(case).run("cpu"):
                digest.update(tensor.view(torch.uint8).numpy().tobytes())
        reference = reference or digest.hexdigest()
        print(digest.hexdigest() == reference)
    """
    )
    assert run(script) == "True\n" * 3


def test_called_from_several_threads() -> None:
    problem = Problem(Case((100, 20), 2, 16, 16))
    expected = problem.run("cpu")
    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(problem.run, ["cpu"] * 8):
            assert all(a.equal(b) for a, b in zip(results, expected))


PEAK = """
    import torch, gr_ops
    from pathlib import Path

    def resident(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

    length, heads, dim = LENGTH, 2, 32
    torch.set_num_threads(2)
    q, k, v, grad = (torch.randn(length, heads, dim) for _ in range(4))
    settings = (None, None, 2, 0, 0.0, torch.tensor([0, length]))
    small = [torch.randn(64, heads, dim) for _ in range(4)]
    tiny = (*settings[:5], torch.tensor([0, 64]))
    torch.ops.mxrec.hstu_jagged(*small[:3], *tiny)
    torch.ops.mxrec.hstu_jagged_backward(small[3], *small[:3], *tiny)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    output = torch.ops.mxrec.hstu_jagged(q, k, v, *settings)
    gradients = torch.ops.mxrec.hstu_jagged_backward(grad, q, k, v, *settings)
    print((resident("VmHWM") - before) / (length * heads * dim * 4))
"""


def test_memory_grows_with_the_tokens_not_with_their_square() -> None:
    """Peak beyond the inputs, in copies of q: output, three gradients, and sums of one head per thread."""
    length = 6144  # one matrix of scores of a head would be 151 MB, 96 copies of q
    copies = float(run(PEAK.replace("LENGTH", str(length))))
    assert 3.5 < copies < 8, copies


def test_many_short_rows() -> None:
    check(Case((3, 0, 1, 2) * 500, 1, 4, 4), "cpu")
