"""Kernels that another Triton compiles: what they depend on, how arguments lie in memory, what is kept on disk.

Launches need a GPU: there `GR_OPS_TRITON=FOLDER pytest kernels/gr_ops/tests/cuda` runs all other tests with them.
"""

import base64
import ctypes
import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gr_ops.cuda import cubins, launch_cache, tma
from gr_ops.cuda.cubins import __main__ as program
from gr_ops.cuda.cubins import compiler, driver, store
from gr_ops.cuda.cubins.facts import facts_of
from gr_ops.cuda.cubins.launch import Loaded
from gr_ops.cuda.cubins.roles import ALIGNMENT_FREE, CONSTANT, FREE, SPECIALIZED, needed
from gr_ops.cuda.kernel import Kernel
from gr_ops.cuda.tma import Tile

KERNEL = Kernel("hopper.rounding", "round_sum")
PTX = """
.visible .entry other(
	.param .u32 other_param_0,
	.param .align 64 .b8 other_param_1[128]
)
{ }
.visible .entry kernel(
	.param .align 64 .b8 kernel_param_0[128],
	.param .u32 kernel_param_1,
	.param .u64 kernel_param_2,
	.param .u64 .ptr .global .align 1 kernel_param_3,
	.param .f32 kernel_param_4,
	.param .u8 kernel_param_5,
	.param .u64 .ptr .global .align 1 kernel_param_6,
	.param .u64 .ptr .global .align 1 kernel_param_7
)
.reqntid 128
{ }
"""
PLACES = ((0, 128), (128, 4), (136, 8), (144, 8), (152, 4), (156, 1), (160, 8), (168, 8))
TYPES = ("tensordesc<fp16[64],NVMMASharedLayout(64, 16, 1, False, False)>", "constexpr", "*fp16", "fp32", "i1")


@pytest.fixture(autouse=True)
def another_triton(tmp_path, monkeypatch):
    """A folder that is named as the one with the other Triton; nothing of it is imported here."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/__init__.py").write_text('"""..."""\n__version__ = \'3.6.0\'\n')
    monkeypatch.setenv(cubins.FOLDER, str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    cached = cubins.folder, cubins.version, store.folder
    for each in cached:
        each.cache_clear()
    yield tmp_path
    for each in cached:
        each.cache_clear()


def test_the_version_is_read_where_the_variable_says(another_triton, monkeypatch):
    assert cubins.version() == "3.6.0"
    monkeypatch.delenv(cubins.FOLDER)
    for cached in (cubins.folder, cubins.version):
        cached.cache_clear()
    assert cubins.version() is None


def test_a_folder_without_triton_is_an_error(another_triton):
    (another_triton / "triton/__init__.py").unlink()
    with pytest.raises(ImportError, match=r"holds no Triton; unset it"):
        cubins.version()


A = torch.zeros(64, dtype=torch.float16)
SAME = {
    "numbers of no matter": (FREE, 1, 16, 7, 2**31 - 1),
    "any multiple of 16": (SPECIALIZED, 16, 32, 0, 4096),
    "any other number": (SPECIALIZED, 3, 17, 2**31 - 1),
    "numbers whose alignment is of no matter": (ALIGNMENT_FREE, 2, 16, 17),
    "floats": (SPECIALIZED, 0.5, 1.0),
    "booleans": (SPECIALIZED, True, False),
    "aligned addresses": (SPECIALIZED, A, A[8:], torch.ones(16, dtype=torch.float16)),
    "addresses of no matter": (FREE, A, A[1:]),
    "addresses whose alignment is of no matter": (ALIGNMENT_FREE, A, A[1:]),
    "tiles of tensors": (SPECIALIZED, Tile(A, (8,)), Tile(A[8:], (8,))),
}
DIFFERENT = {
    "constants": (CONSTANT, 16, 32),
    "booleans that are constants": (CONSTANT, True, False),
    "one": (SPECIALIZED, 1, 17),
    "one, where alignment is of no matter": (ALIGNMENT_FREE, 1, 17),
    "multiples of 16": (SPECIALIZED, 16, 17),
    "wide numbers": (FREE, 3, 2**31),
    "wide multiples of 16": (SPECIALIZED, 16, 2**40),
    "addresses": (SPECIALIZED, A, A[1:]),
    "types": (FREE, A, A.bfloat16()),
    "kinds of numbers": (FREE, 3, 3.0),
    "blocks": (SPECIALIZED, Tile(A, (8,)), Tile(A, (16,))),
}


def facts(role, x):
    return json.dumps(needed(facts_of([x]), [role]))


@pytest.mark.parametrize("name", SAME)
def test_one_compiled_kernel_serves(name):
    role, *values = SAME[name]
    assert len({facts(role, x) for x in values}) == 1


@pytest.mark.parametrize("name", DIFFERENT)
def test_not_the_same_kernel_serves(name):
    role, *values = DIFFERENT[name]
    assert len({facts(role, x) for x in values}) == len(values)


def test_a_stand_in_is_to_triton_what_it_stands_for():
    """What `needed` leaves of a number has the same width, and is 1 or a multiple of 16 where it was."""
    for value in (1, 16, 48, 3, 2**31 - 1, -(2**31), 2**31, 2**40, 2**40 + 1):
        ((_, left),) = needed([["int", value]], [SPECIALIZED])
        wide = [not -(2**31) <= x < 2**31 for x in (value, left)]
        assert wide[0] == wide[1] and (left == 1) == (value == 1) and (left % 16 == 0) == (value % 16 == 0)


def test_what_is_no_argument_of_a_kernel():
    with pytest.raises(TypeError, match="object"):
        facts_of([object()])


def test_where_ptx_has_the_parameters():
    assert tuple(compiler.places(PTX, "kernel")) == PLACES
    assert compiler.places(PTX, "other") == [(0, 4), (64, 128)]


def compiled(**others):
    tiles = ({"swizzle": 3, "block_size": [64]},)
    about = {"function": "kernel", "threads": 128, "shared": 0, "types": TYPES, "tiles": tiles, "places": PLACES}
    return store.Compiled(cubin=b"cubin", **{**about, **others})


class Parameters(ctypes.Structure):
    """The same parameters as a C compiler lays them out."""

    _fields_ = (
        ("map", ctypes.c_char * 128),
        ("shape", ctypes.c_int32),
        ("stride", ctypes.c_int64),
        ("pointer", ctypes.c_uint64),
        ("number", ctypes.c_float),
        ("flag", ctypes.c_bool),
        ("global_scratch", ctypes.c_uint64),
        ("profile_scratch", ctypes.c_uint64),
    )


def test_arguments_lie_as_in_c(monkeypatch):
    asked = []
    monkeypatch.setattr(driver, "tile_map", lambda *about: asked.append(about) or b"m" * 128)
    packed = Loaded(compiled(), None).pack((Tile(A, (64,)), 7, A, 0.25, True))
    there = Parameters.from_buffer_copy(packed)
    assert len(packed) == ctypes.sizeof(Parameters)
    assert (there.map, there.shape, there.stride, there.pointer) == (b"m" * 128, 64, 1, A.data_ptr())
    assert (there.number, there.flag, there.global_scratch, there.profile_scratch) == (0.25, True, 0, 0)
    assert asked == [(A, 3, [64])]


def test_maps_are_made_once_for_a_place(monkeypatch):
    asked = []
    monkeypatch.setattr(driver, "tile_map", lambda *about: asked.append(about) or b"m" * 128)
    loaded, y = Loaded(compiled(), None), torch.zeros(128, dtype=torch.float16)
    for x in (A, A, y, y[:64], y[::2], A):
        loaded.pack((Tile(x, (64,)), 7, A, 0.25, True))
    assert [each[0].shape for each in asked] == [(64,), (128,), (64,), (64,)]


def test_a_kernel_with_other_parameters_is_not_launched(monkeypatch):
    monkeypatch.setattr(driver, "tile_map", lambda *about: b"m" * 128)
    with pytest.raises(RuntimeError, match="parameters of"):
        Loaded(compiled(places=PLACES[:-1]), None).pack((Tile(A, (64,)), 7, A, 0.25, True))


@pytest.fixture
def made(monkeypatch):
    """Requests of compilers, in whose place one answers that compiles nothing."""
    requests = []

    def run(argv, *, input, env, cwd, **others):
        assert argv[0] == sys.executable and not list(Path(cwd).iterdir())
        assert env["PYTHONPATH"].split(":")[0] == env[cubins.FOLDER] and "TRITON_INTERPRET" not in env
        requests.append(json.loads(input))
        about = {**vars(compiled()), "cubin": base64.b64encode(b"cubin").decode(), "triton": "3.6.0"}
        answer = json.dumps({**about, "roles": [SPECIALIZED, FREE, CONSTANT]})
        return SimpleNamespace(returncode=0, stdout=answer, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return requests


def test_a_kernel_is_compiled_once(made, caplog):
    caplog.set_level(logging.INFO)
    first = store.find(KERNEL, facts_of([A, 100, True]), {"num_warps": 4})
    again = store.find(KERNEL, facts_of([torch.ones(8, dtype=torch.float16), 7, True]), {"num_warps": 4})
    assert first == again == compiled() and len(made) == len(caplog.records) == 1
    assert made[0] == {
        "module": "hopper.rounding",
        "name": "round_sum",
        "facts": [["tensor", "float16", True], ["int", 100], ["bool", True]],
        "options": {"num_warps": 4},
    }
    store.find(KERNEL, facts_of([A, 100, False]), {"num_warps": 4})
    store.find(KERNEL, facts_of([A, 100, True]), {"num_warps": 8})
    store.find(KERNEL._replace(name="other"), facts_of([A, 100, True]), {"num_warps": 4})
    assert len(made) == 4


ONE_OF_MANY = """
import json, sys, time
from types import SimpleNamespace
from gr_ops.cuda.cubins import store
from gr_ops.cuda.kernel import Kernel

def run(argv, **others):
    print("compiled", flush=True)
    time.sleep(1)  # in which the other process comes
    return SimpleNamespace(returncode=0, stdout=sys.argv[1], stderr="")

store.subprocess.run = run
found = store.find(Kernel("hopper.rounding", "round_sum"), [["int", 3]], {})
print(found.function)
"""


def test_processes_that_want_a_kernel_at_once_compile_it_once(another_triton):
    about = {**vars(compiled()), "cubin": base64.b64encode(b"cubin").decode(), "triton": "3.6.0", "roles": [FREE]}
    argv = [sys.executable, "-c", ONE_OF_MANY, json.dumps(about)]
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert sorted(out for out, _ in outputs) == ["compiled\nkernel\n", "kernel\n"], outputs


def test_other_sources_or_another_compiler_are_compiled_anew(made, another_triton, monkeypatch):
    kept = [store.folder()]
    (another_triton / "triton/__init__.py").write_text("__version__ = '3.7.0'\n")
    for cached in (cubins.version, store.folder):
        cached.cache_clear()
    kept.append(store.folder())
    sources = another_triton / "gr_ops"
    (sources / "cuda").mkdir(parents=True)
    (sources / "cuda/a.py").write_text("x = 1\n")
    monkeypatch.setattr(store, "PACKAGE", sources)
    for text in ("x = 1\n", "x = 2\n"):
        (sources / "cuda/a.py").write_text(text)
        store.folder.cache_clear()
        kept.append(store.folder())
    assert len(set(kept)) == 4


def test_without_a_place_to_keep_them_kernels_are_compiled_all_the_same(made, another_triton, monkeypatch, caplog):
    (another_triton / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(another_triton / "file"))
    store.folder.cache_clear()
    assert store.find(KERNEL, facts_of([A, 1, True]), {}) == compiled()
    assert "cannot be written (Not a directory): kernels are compiled anew" in caplog.text


def test_a_compiler_that_fails_says_so(another_triton):
    (another_triton / "triton/__init__.py").write_text("__version__ = '3.6.0'\nraise ImportError('no such luck')\n")
    with pytest.raises(
        RuntimeError, match=rf"(?s)round_sum was not compiled .*no such luck.*next: unset {cubins.FOLDER}"
    ):
        store.find(KERNEL, facts_of([A, 1, True]), {})


def test_named_kernels_are_launched_without_triton(monkeypatch):
    launched, noted = [], []

    class Kept(Loaded):
        @classmethod
        def of(cls, kernel, arguments, options, device):
            noted.append((kernel, arguments, options, device))
            return cls(compiled(), None)

        def launch(self, grid, stream, arguments):
            launched.append((grid, stream, arguments))

    monkeypatch.setattr(launch_cache, "Loaded", Kept)
    monkeypatch.setattr(launch_cache, "_compiled", {})
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 5, raising=False)
    for number in (1, 2):
        launch_cache.launch(KERNEL, (3,), ("key",), (A, number), 0, num_warps=4)
    assert noted == [(KERNEL, (A, 1), {"num_warps": 4}, 0)]
    assert launched == [((3, 1, 1), 5, (A, 1)), ((3, 1, 1), 5, (A, 2))]


def test_tiles_are_described_for_who_launches(monkeypatch):
    assert tma.describe(A, (8,)) == Tile(A, (8,))
    monkeypatch.setattr(cubins, "version", lambda: None)
    monkeypatch.setattr(tma, "_in_gluon", lambda x, block: ("Gluon's", x, block))
    assert tma.describe(A, (8,)) == ("Gluon's", A, (8,))


@pytest.mark.parametrize("relative", [False, True])
def test_the_program_asks_for_what_a_model_launches(relative):
    names = {wanted.kernel.name for wanted in program.of_attention(torch.bfloat16, 4, 128, False, relative)}
    assert names == {"list_tiles", "forward", "backward", "clear_sum", "round_sum"} | (
        {"prepare", "encode", "add_near", "add_diagonals"} if relative else set()
    )
    wide = {wanted.kernel.name for wanted in program.of_attention(torch.float16, 4, 256, True, False)}
    assert wide == {"list_tiles", "forward", "backward_of_keys", "backward_of_queries"}
    assert [wanted.kernel.name for wanted in program.of_layer(torch.bfloat16, 512, 4, 128)] == ["product"] * 4
    assert program.of_layer(torch.bfloat16, 500, 4, 128) == []


def test_both_kinds_of_rows_are_asked_for():
    constants = [wanted.facts for wanted in program.of_attention(torch.bfloat16, 4, 128, False, False)]
    assert len([each for each in constants if each[0] == ["tile", "bfloat16", [64, 1, 128]]]) == 4


def test_the_program_wants_another_triton(monkeypatch, capsys):
    monkeypatch.setattr(cubins, "version", lambda: None)
    monkeypatch.setattr(sys, "argv", ["cubins"])
    assert program.main() == 2
    assert cubins.FOLDER in capsys.readouterr().err
