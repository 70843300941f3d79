"""The Matmul object: products agree with double precision; each broken use is stopped with its rule."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import CORES, FLAGS, HERE, SOURCES, TWIN, Outcome

# matmul_kernels.h: enum Break.
BREAKS = {
    "NO_WAIT": (1, "E-32"),
    "NO_END": (2, "E-32"),
    "NO_REGISTER": (3, "E-32"),
    "LATE_REGISTER": (4, "E-32"),
    "FIVE_OBJECTS": (5, "E-32"),
    "WRONG_SINGLE": (6, "E-32"),
    "PITCH_LATE": (7, "E-32"),
    "NARROW_PITCH": (8, "E-32"),
    "WIDE_PITCH": (9, "E-32"),
    "NO_B": (10, "E-32"),
    "WRONG_TRANSPOSE": (11, "E-32"),
    "WAIT_TWICE": (12, "E-32"),
    "WAIT_WITHOUT_ASKING": (13, "E-32"),
    "LOAD_BEFORE_WAIT": (14, "E-32"),
    "SLOT_STILL_LOADED": (15, "E-32"),
    "INPUT_STILL_STORED": (16, "E-32"),
    "NO_ITERATE": (17, "E-32"),
    "BIAS_WITHOUT_TILING": (18, "E-32"),
    "PAST_TENSOR": (19, "E-17"),
    "ATOMIC_UNKNOWN": (21, "E-32"),
    "ATOMIC_ON_NOTHING": (22, "E-21"),
    "UNWRITTEN_OPERAND": (30, "E-16"),
    "PARTLY_UNWRITTEN_OPERAND": (31, "E-16"),
}
OVERWRITTEN = 24  # no break: operands in the unified buffer change after the first tile
FIELDS = {
    "usedCoreNum": (0, "E-32"),
    "baseM": (24, "E-32"),
    "baseN": (0, "E-32"),
    "baseK": (12, "E-32"),
    "singleCoreM": (8, "E-32"),
    "singleCoreK": (100000, "E-32"),
    "depthA1": (3, "E-32"),
    "depthB1": (-1, "E-32"),
    "stepM": (2, "E-32"),
    "dbL0A": (64, "E-28"),
    "dbL0C": (64, "E-28"),
    "isBias": (1, "E-32"),
    "iterateOrder": (7, "E-32"),
}


@pytest.fixture(scope="session")
def run_matmul(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    compiler = shutil.which("g++")
    assert compiler is not None, "the kernel tests need g++"
    build = tmp_path_factory.mktemp("matmul")

    def compile_one(source: Path) -> str:
        target = build / f"{source.stem}.o"
        command = [compiler, *FLAGS, f"-I{TWIN / 'include'}", f"-I{CORES}", "-c", str(source), "-o", str(target)]
        subprocess.run(command, check=True)
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [*SOURCES, HERE / "run_matmul.cpp"]))
    program = build / "run_matmul"
    subprocess.run([compiler, *FLAGS, *objects, "-o", str(program)], check=True)

    def run(
        kernel, shape, *, cores=2, breaks=0, field="", value=0, seed=None, check="full", counts=(), l2=0
    ) -> Outcome:
        environment = {
            "TWIN_CHECK": check,
            "TWIN_COUNTS_L2": str(l2),
            **({} if seed is None else {"TWIN_SEED": str(seed)}),
        }
        command = [str(program), kernel, *map(str, shape), str(cores), str(breaks), field, str(value), *counts]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
        return Outcome(result.returncode, result.stdout + result.stderr)

    return run


# Around the 16-element grid, blocks of 32 rows, and panels of 256 in k.
SHAPES = [(1, 1, 1), (33, 17, 15), (100, 40, 64), (31, 130, 300), (64, 300, 257)]
KERNELS = ["float", "float-ta", "float-tb", "half", "half-ta", "half-tb", "bfloat16-tatb", "tiled", "tiled-half"]
KERNELS += ["float-nz", "half-nz", "half-nz-tatb", "bfloat16-nz-ta", "float-to-nz", "half-nz-to-nz", "tiled-to-nz"]
KERNELS += ["no-task-type"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_agree_with_double(run_matmul, kernel, shape):
    outcome = run_matmul(kernel, shape)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("cores", [1, 3, 20])
@pytest.mark.parametrize("kernel", ["ahead", "local"])
def test_every_order_and_core_count(run_matmul, kernel, cores, seed):
    outcome = run_matmul(kernel, (250, 40, 48), cores=cores, seed=seed)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("shape", [(32, 17, 15), (64, 40, 48), (160, 300, 33)], ids=str)
@pytest.mark.parametrize("kernel", ["local-nz", "local-nz-tiles"])
def test_results_in_nz_in_the_unified_buffer(run_matmul, kernel, shape):
    outcome = run_matmul(kernel, shape)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize(
    ("kernel", "said"),
    [("local-nz", "of 8 rows: they are whole 16"), ("local-nz-tiles", "a tile of 8 rows, baseM is 32")],
)
def test_rows_that_do_not_fill_nz_in_the_unified_buffer_are_refused(run_matmul, kernel, said):
    outcome = run_matmul(kernel, (40, 40, 48))
    assert outcome.code == 1 and "[E-32]" in outcome.text and said in outcome.text, outcome.text


# Rows of whole 32 bytes, as ND lies in the unified buffer without gaps.
@pytest.mark.parametrize("breaks", [0, OVERWRITTEN])
@pytest.mark.parametrize("shape", [(32, 16, 16), (96, 48, 64), (64, 96, 32)], ids=str)
@pytest.mark.parametrize("kernel", ["vecout", "vecout-half-ta", "vecout-bfloat16-tb"])
def test_operands_in_the_unified_buffer(run_matmul, kernel, shape, breaks):
    """What has been sent to the cube does not change with the buffer."""
    outcome = run_matmul(kernel, shape, breaks=breaks, field="baseN", value=16)
    assert (outcome.code, outcome.text) == (0, "ok\n")


# NZ has room for any size.
@pytest.mark.parametrize("breaks", [0, OVERWRITTEN])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 15), (64, 96, 32), (31, 130, 200)], ids=str)
@pytest.mark.parametrize("kernel", ["vecout-nz", "vecout-nz-tb", "vecout-nz-half-tatb", "vecout-nz-bfloat16-ta"])
def test_operands_in_nz_in_the_unified_buffer(run_matmul, kernel, shape, breaks):
    outcome = run_matmul(kernel, shape, breaks=breaks, field="baseN", value=16)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", ["bias", "bias-vecout"])
def test_a_bias_is_added_to_each_row(run_matmul, kernel, shape):
    outcome = run_matmul(kernel, shape)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("shape", [(33, 40, 15), (31, 130, 300)], ids=str)
@pytest.mark.parametrize("kernel", ["bias-tiles", "bias-vecout-tiles"])
def test_a_tile_takes_its_own_part_of_the_bias(run_matmul, kernel, shape):
    outcome = run_matmul(kernel, shape, field="baseN", value=16)
    assert (outcome.code, outcome.text) == (0, "ok\n")


# Three tiles in a row, the last one narrower; rows fill the tiles where their results lie in NZ in VECIN.
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("kernel", ["both", "ahead-gm", "ahead-ub", "ahead-both", "ahead-read"])
@pytest.mark.parametrize("shape", [(33, 40, 15), (100, 48, 64), (160, 8, 300)], ids=str)
def test_tiles_are_handed_out_in_every_way(run_matmul, kernel, shape, seed):
    outcome = run_matmul(kernel, shape, field="baseN", value=16, seed=seed)
    assert (outcome.code, outcome.text) == (0, "ok\n")


@pytest.mark.parametrize("kernel", ["both-nz", "ahead-ub-nz", "ahead-read-nz"])
@pytest.mark.parametrize("shape", [(32, 17, 15), (160, 40, 33)], ids=str)
def test_tiles_in_nz_are_handed_out(run_matmul, kernel, shape):
    outcome = run_matmul(kernel, shape, field="baseN", value=32)
    assert (outcome.code, outcome.text) == (0, "ok\n")


def counted(outcome: Outcome) -> tuple[int, ...]:
    assert outcome.code == 0, outcome.text
    return tuple(map(int, outcome.text.removeprefix("ok\n").split()))


# For each 32 rows, in this order: what goes from GM to the unified buffer, from there to the cube (written, read for
# each tile), from GM to the cube, and the result: to GM, or by way of GM to the unified buffer and from there to GM.
# What fills up NZ goes along where whole groups do.
COUNTS = {
    "float": ((64, 40, 48), 0, 2 * (32 * 48 * 4 + 48 * 40 * 4), 2 * 32 * 40 * 4),
    "local": (
        (64, 40, 48),
        0,
        2 * (32 * 48 * 4 + 32 * 48 * 4 + 48 * 40 * 4 + 32 * 40 * 4),
        2 * (32 * 48 * 4 + 32 * 40 * 4 + 32 * 40 * 4),
    ),
    "local-nz": ((32, 17, 15), 0, 32 * 15 * 4 + 15 * 17 * 4 + 32 * 32 * 4, 32 * 32 * 4 + 32 * 17 * 4),
    "local-nz-tiles": (
        (32, 40, 48),
        16,
        3 * 32 * 48 * 4 + 48 * 40 * 4 + 3 * 32 * 16 * 4,
        3 * 32 * 16 * 4 + 32 * 40 * 4,
    ),
    "vecout": (
        (64, 48, 32),
        16,
        2 * ((32 * 32 + 32 * 48) * 4 + 3 * 32 * 32 * 4 + 32 * 48 * 4),
        2 * ((32 * 32 + 32 * 48) * 4 + 32 * 48 * 4),
    ),
    "vecout-nz": (
        (33, 17, 15),
        16,
        (32 + 1) * 16 * 4 + 2 * 15 * 24 * 4 + 2 * (32 + 1) * 16 * 4 + 2 * 15 * 24 * 4,
        (32 + 16) * 16 * 4 + 2 * 16 * 24 * 4 + (32 + 1) * 17 * 4,
    ),
    "bias": ((64, 40, 48), 0, 2 * (32 * 48 * 4 + 48 * 40 * 4 + 40 * 4), 2 * 32 * 40 * 4),
    "bias-vecout": (
        (64, 40, 48),
        0,
        2 * (32 * 48 * 4 + 48 * 40 * 4 + 2 * 40 * 4),
        2 * (32 * 40 * 4 + 40 * 4),
    ),
    "ahead-ub": ((32, 48, 32), 16, 3 * 32 * 32 * 4 + 32 * 48 * 4 + 32 * 48 * 4, 2 * 32 * 48 * 4),
    "vecout-half-ta": ((32, 48, 64), 0, 2 * (64 * 32 + 64 * 48) * 2, (64 * 32 + 64 * 48) * 2 + 32 * 48 * 4),
}


@pytest.mark.parametrize("kernel", COUNTS)
def test_bytes_are_counted(run_matmul, kernel):
    shape, base_n, read, written = COUNTS[kernel]
    outcome = run_matmul(kernel, shape, cores=1, field="baseN" if base_n else "", value=base_n, counts=["counts"])
    assert counted(outcome) == (read, written, 0, 0)


def test_what_goes_to_the_cube_stays_in_an_l2(run_matmul):
    """Of a, b and c, whose rows lie 37, 51 and 55 floats apart, every line; of what is sent, those that are written."""
    outcome = run_matmul("vecout", (64, 48, 32), cores=1, field="baseN", value=16, counts=["counts"], l2=2**27)
    lines = [-(-(rows * pitch + last) * 4 // 512) for rows, pitch, last in ((63, 37, 32), (31, 51, 48), (63, 55, 48))]
    sent = 2 * (32 * 32 + 32 * 48) * 4 // 512
    assert counted(outcome)[2:] == (512 * (lines[0] + lines[1]), 512 * (lines[2] + sent))


@pytest.mark.parametrize("name", BREAKS)
def test_broken_use_is_stopped(run_matmul, name):
    number, rule = BREAKS[name]
    outcome = run_matmul("ahead", (200, 40, 48), cores=1, breaks=number)
    assert outcome.code == 1, outcome.text
    assert f"[{rule}]" in outcome.text


@pytest.mark.parametrize("field", FIELDS)
def test_wrong_tiling_field(run_matmul, field):
    value, rule = FIELDS[field]
    outcome = run_matmul("float", (100, 40, 48), field=field, value=value)
    assert outcome.code == 1, outcome.text
    assert f"[{rule}]" in outcome.text


@pytest.mark.parametrize(
    ("kernel", "breaks", "rule"),
    [
        ("two-open", 0, "E-32"),
        ("vector-cores", 0, "E-32"),
        ("local", 20, "E-16"),
        ("vecout-nz", 20, "E-16"),
        ("local", 23, "E-32"),
        ("bias-vecout", 20, "E-16"),
        ("both", 23, "E-32"),
        ("ahead-gm", 25, "E-32"),
        ("ahead-gm", 26, "E-32"),
        ("ahead-gm", 27, "E-32"),
        ("ahead-read", 28, "E-32"),
    ],
)
def test_broken_kernel_is_stopped(run_matmul, kernel, breaks, rule):
    outcome = run_matmul(kernel, (40, 40, 48), cores=1, breaks=breaks)
    assert outcome.code == 1, outcome.text
    assert f"[{rule}]" in outcome.text


def test_tiles_that_a_kernel_still_reads_are_not_written_over(run_matmul):
    outcome = run_matmul("ahead-read", (160, 40, 48), cores=1, breaks=29, field="baseN", value=16)
    assert outcome.code == 1 and "[E-32]" in outcome.text, outcome.text


def test_fast_checks_give_the_same_result(run_matmul):
    outcome = run_matmul("ahead", (250, 40, 48), check="fast")
    assert (outcome.code, outcome.text) == (0, "ok\n")


def test_tilings_keep_the_rules(tmp_path):
    program = tmp_path / "run_tiling"
    command = ["g++", *FLAGS, f"-I{TWIN / 'include'}", str(HERE / "run_tiling.cpp"), "-o", str(program)]
    subprocess.run(command, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "ok\n")
