"""The unmodified torch_npu wheel over libhccl, started by torchrun or, with one import for all ranks, as by it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import forked_ranks
import pytest
from hccl_api import LIBRARIES

pytestmark = pytest.mark.twin

HERE = Path(__file__).parent
SOON = 8.0


def environment_of(size: int, own: dict[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
        "OMP_NUM_THREADS": "1",
        "TWIN_NPU_COUNT": str(size),
        "TWIN_HCCL_TIMEOUT": "60",
        **own,
    }


def torchrun(script: str, size: int, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        + [str(HERE / script), *arguments],
        env=environment_of(size, environment),
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )


def forked(script: str, size: int, folder: Path, *arguments: str, **environment: str) -> tuple[list[int], str]:
    """The ranks' exit codes, and what they said: `script` with `arguments` and `folder`, where they meet."""
    logs = [folder / f"rank{rank}.log" for rank in range(size)]
    common = environment_of(size, environment) | {"WORLD_SIZE": str(size)}
    own = [{"RANK": str(n), "LOCAL_RANK": str(n), "LOCAL_WORLD_SIZE": str(size)} for n in range(size)]
    argv = [str(HERE / script), *arguments, str(folder)]
    with forked_ranks.meeting() as place:
        codes = forked_ranks.wait(forked_ranks.start("torch,torch_npu", argv, common | place, own, logs), 300, SOON)
    return codes, "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)


def told(rank: int, folder: Path) -> tuple[float, str]:
    """After how many seconds the program of torch_failures.py was told, and what: it caught it, or its process ended.

    Two of torch_npu's exceptions have nobody to catch them and end the process with their text. Its watchdog throws
    when it finds the failure before the program asks. Its task queue throws once, from what is handed to it first after
    a refused call; that may be the destruction of an event of a dropped work (NPUGuardImpl::destroyEvent, noexcept).
    """
    report, log = folder / f"rank{rank}.txt", folder / f"rank{rank}.log"
    if report.exists():
        seconds, error = report.read_text().split("\n", 1)
        return float(seconds), error
    said = log.read_text(errors="replace")
    _, ended, thrown = said.partition("terminate called after throwing an instance of")
    assert ended, f"rank {rank} neither caught an error nor ended of one: {said}"
    seconds_to_the_end = log.stat().st_mtime - (folder / f"began{rank}").stat().st_mtime
    # The watchdog's own text has no more than HCCL's code; the log has the failure beside it.
    return seconds_to_the_end, said if "HCCL watchdog thread terminated with exception" in thrown else thrown


def check_names() -> list[str]:
    """Read from the source: importing it needs the twin on the library path."""
    source = (HERE / "torch_checks.py").read_text()
    names = re.findall(r"^@check\ndef (\w+)", source, re.MULTILINE)
    dtypes = ("float32", "float16", "bfloat16", "int64", "int32", "int8")
    reduced = [f"all_reduce_{op}_{dtype}" for dtype in dtypes for op in ("sum", "prod", "max", "min")]
    reduced.remove("all_reduce_prod_bfloat16")  # Atlas A2 has none, by HCCL's documentation
    return reduced + names


@pytest.fixture(scope="module", params=[2, 4])
def processes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def checked(processes: int, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("checks")
    if processes == 2:
        done = torchrun("torch_checks.py", processes, str(folder))
        codes, said = [done.returncode] * processes, done.stderr
    else:
        codes, said = forked("torch_checks.py", processes, folder)
    results = sorted(folder.glob("rank*.json"))
    assert len(results) == processes, said
    assert codes == [0] * processes, said
    return [json.loads(path.read_text()) for path in results]


# How the emulation rounds.
EMULATIONS_OWN = {"all_reduce_rounds_once_in_rank_order"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.emulated] if name in EMULATIONS_OWN else []) for name in check_names()],
)
def test_check(name: str, checked: list[dict[str, str]]) -> None:
    for rank, found in enumerate(checked):
        assert found[name] == "ok", f"rank {rank}: {found[name]}"


def test_every_check_is_listed(checked: list[dict[str, str]]) -> None:
    assert sorted(checked[0]) == sorted(check_names())


@pytest.mark.emulated
@pytest.mark.parametrize(
    ("kind", "limit", "texts"),
    [
        ("killed", "60", ("HcclAllReduce #2 (fp32, 4 elements, sum)", "rank 1 (pid ", "is gone")),
        ("late", "2", ("HcclAllReduce #2 (fp32, 4 elements, sum)", "rank 1 (pid ", "has not called it")),
        ("product of bfloat16", "60", ("Atlas A2 and A3 do not reduce bfp16 by prod",)),
        ("product of int16", "60", ("Atlas A2 and A3 do not reduce int16 by prod",)),
        ("mismatch", "60", ("rank 1 ", "called HcclBroadcast #2", "this rank called HcclAllReduce #2")),
    ],
)
def test_failure_reaches_the_user(kind: str, limit: str, texts: tuple[str, ...], tmp_path: Path) -> None:
    limits = {"TWIN_HCCL_TIMEOUT": "", "HCCL_EXEC_TIMEOUT": limit}
    if kind == "killed":  # of which torchrun tells the other rank, too
        done = torchrun("torch_failures.py", 2, kind, str(tmp_path), **limits)
        codes, said = [done.returncode], done.stderr
        (tmp_path / "rank0.log").write_text(said)
    else:
        codes, said = forked("torch_failures.py", 2, tmp_path, kind, **limits)
    expected = {0: texts}
    if kind == "mismatch":  # the other rank does not ask, and is told
        expected[1] = ("rank 0 ", "called HcclAllReduce #2", "this rank called HcclBroadcast #2")
    for rank, parts in expected.items():
        # What the program caught ends it with 1, unless the watchdog is before it there, too.
        assert codes[rank] in (1, -signal.SIGABRT), said
        seconds, error = told(rank, tmp_path)
        assert seconds < SOON, said
        for text in parts:
            assert text in error, said


@pytest.mark.emulated
def test_library_needs_only_its_neighbours() -> None:
    """The wheel's _C finds aclAppLog through libhccl; and nothing of torch is wanted."""
    library = str(LIBRARIES / "libhccl.so")
    needed = subprocess.run(["readelf", "-d", library], text=True, capture_output=True, check=True)
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", needed.stdout)
    assert "libascendcl.so" in names
    assert not [name for name in names if "torch" in name or "c10" in name]
    assert re.findall(r"\(SONAME\).*\[(.*)\]", needed.stdout) == ["libhccl.so"]


@pytest.mark.emulated
def test_wheel_finds_every_symbol() -> None:
    found = importlib.util.find_spec("torch_npu")
    assert found is not None
    assert found.submodule_search_locations
    wheel = Path(found.submodule_search_locations[0]) / "lib" / "libtorch_npu.so"
    symbols = subprocess.run(["nm", "-D", str(wheel)], text=True, capture_output=True, check=True).stdout
    wanted = set(re.findall(r" U (Hccl\w+)", symbols))
    assert len(wanted) == 10
    ours = subprocess.run(
        ["nm", "-D", "--defined-only", str(LIBRARIES / "libhccl.so")], text=True, capture_output=True, check=True
    ).stdout
    exported = set(re.findall(r" T (Hccl\w+)", ours))
    assert wanted <= exported
    # Left out on purpose: torch_npu falls back when they are absent.
    left_out = {"HcclCommInitClusterInfoConfig", "HcclCreateSubCommConfig", "HcclCommResume"}
    assert not left_out & exported
