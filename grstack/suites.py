"""`inv test`: linters and every test suite, each where it belongs; the test runner's own closing line comes last."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from grstack import changed, failures, host, inputs, lint, locks, needs, network, spec
from grstack.choices import Choices
from grstack.commands import ROOT, session
from grstack.engines import Mount
from grstack.errors import GrstackError, UsageError
from grstack.execute import execute
from grstack.locks import Lock
from grstack.recipes import load_all
from grstack.run import CommandFailed, Runner
from grstack.session import Session
from grstack.side_by_side import SideBySide

BIN = Path(sys.executable).parent
ON_HOST = ("tests/unit", "tests/golden")
# Each suite is a process of its own: the loader, torch_npu and the twin read their settings once per process. Several
# run at once, begun in this order; the longest are the first, so that none is left alone at the end.
IN_IMAGE = (
    "kernels/gr_ops/tests",
    "gr_model/tests",
    "embeddings/hybrid_torchrec/tests",
    "twin/tests/aten",
    "twin/tests/mutants",
    "twin/tests/runtime",
    "recipes/torchrec/tests",
    "twin/tests/sanitizers",
    "twin/tests/hccl",
    "embeddings/torchrec_embcache/tests",
    "embeddings/hybrid_torchrec/tests/cuda",
    "twin/tests/launcher",
    "twin/tests/package",
    "kernels/gr_ops/tests/cuda",
    "twin/tests/opbuild",
    "twin/tests/ascendc",
    "kernels/operators",
    "smoke_tests/tests",
    "kernels/packaging/tests",
    "gr_model/tests/cuda",
    "grstack/new/tests",
)
HOST_COMMANDS = {  # what the tests on the host call, with the Debian package of each
    "cc": "gcc",
    "clang++": "clang",
    "cmake": "cmake",
    "make": "make",
    "makeself": "makeself",
    "readelf": "binutils",
    "ninja": "ninja-build",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-aarch64": "qemu-user",
    "ip": "iproute2",
    "nsenter": "util-linux",
}
OPTIONS = ("-q", "--disable-warnings", "-m")
IN_THE_GATE = "not slow"
TEST_WHEELS = "test-wheels"
RESULTS = "test-results"
WITH_ENGINE = ("tests/integration",)
# Its fixture builds an operator as the image's recipe does: in the image they are there, of the same sources.
OPERATORS = "kernels/operators"
ON_GPU = "tests/on_gpu.py"
TRITON = "triton"


def run_all(*, unit: bool, engine: str, only_changed: bool = False, since: str = "") -> int:
    """Runs everything, also after a failure, and returns 1 if anything failed.

    only_changed: the suites that the files can touch which differ from main, or from the commit `since`.
    """
    console = Console(highlight=False)
    failed: list[str] = []
    results = ROOT / "build" / RESULTS
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)

    def check(title: str, code: int) -> None:
        if code:
            failed.append(title)

    settings = network.load()
    chosen = _chosen(console, since) if only_changed or since else {*IN_IMAGE, *ON_HOST, *WITH_ENGINE}
    log = ROOT / "build/logs/tests.log"
    host.ensure_commands(HOST_COMMANDS, Runner(console, settings), log, settings.connection())
    failed += lint.run(ROOT, Runner(console, settings))
    with_image = not unit and chosen & {*IN_IMAGE, *WITH_ENGINE}
    if chosen & set(ON_HOST) and not with_image:
        check("host tests", on_host(console, _there(ON_HOST), results / "host.xml"))
    if with_image:
        s = session(Choices(engine=engine, devel=True))
        try:
            execute(s.plan, s.engine, s.paths, s.fetch, console)
        except GrstackError:  # what needs no image is still said
            if chosen & set(ON_HOST):
                on_host(console, _there(ON_HOST), results / "host.xml")
            raise
        s.paths.data.mkdir(exist_ok=True)
        stage_wheels(s)
        left_out = [suite for suite in impossible(IN_IMAGE, s.lock) if suite in chosen]
        for suite in left_out:
            console.print(f"[yellow]not run[/yellow]: {suite}: {TRITON} has no wheel for {s.lock.arch}")
        there = [suite for suite in _there(IN_IMAGE) if suite in chosen and suite not in left_out]
        suites = {}
        for title, name, paths in (("host tests", "host", ON_HOST), ("tests with the engine", "engine", WITH_ENGINE)):
            if chosen & set(paths):  # mostly one process that waits: alone they would leave a core idle
                suites[title] = partial(beside, s, _there(paths), name)
        suites |= {f"{suite} in the image": partial(in_image, s, suite) for suite in there}
        failed += SideBySide(suites, at_once=at_once(s), runner=s.runner).run()
    if failed:
        failures.show(results, console)
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
    return 1 if failed else 0


def _chosen(console: Console, since: str) -> set[str]:
    versions = spec.load(ROOT / "versions.yaml")
    operators: dict[str, tuple[str, ...]] = dict.fromkeys(versions.operators, ())
    components = tuple(name for name in changed.PARTS if (ROOT / "recipes" / name).exists())
    recipes = load_all(ROOT, "twin", components, operators)
    found = changed.touched(changed.files(ROOT, Runner(console), since), recipes, IN_IMAGE)
    console.print("the change touches (suite, and a file that is why):" if found else "nothing changed: linters only")
    for line in changed.why(found):
        console.print(line, soft_wrap=True)
    return set(found)


def impossible(suites: Sequence[str], lock: Lock) -> list[str]:
    """The suites of Triton's kernels, where no release of it is locked: it has no wheel for every architecture."""
    if any(package.name == TRITON for package in lock.packages):
        return []
    return [suite for suite in suites if suite.endswith("/cuda")]


def _there(paths: tuple[str, ...]) -> list[str]:
    return [path for path in paths if (ROOT / path).exists()]


def on_host(console: Console, paths: Sequence[str], results: Path, *, marker: str = IN_THE_GATE) -> int:
    return Runner(console).replace(_pytest(paths, results, marker), env=_environment(), cwd=ROOT)


def on_gpu(python: str) -> int:
    """By a Python of the user's, which has PyTorch."""
    own = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != BIN]
    found = shutil.which(python, path=os.pathsep.join(own))
    if found is None:
        raise UsageError(
            f"no Python {python!r} is on the path beside the toolchain's own",
            next_command="inv test --gpu /path/of/your/python3",
        )
    return Runner(Console(highlight=False)).replace([found, str(ROOT / ON_GPU)], cwd=ROOT)


def beside(s: Session, paths: Sequence[str], name: str) -> int:
    """Tests on the host while suites run in the image."""
    argv = _pytest(paths, s.paths.build / RESULTS / f"{name}.xml", IN_THE_GATE)
    try:
        s.runner.stream(argv, log=s.paths.logs / f"{name}-tests.log", env=_environment(), cwd=ROOT, show=True)
    except CommandFailed as error:
        return error.code
    return 0


def _pytest(paths: Sequence[str], results: Path, marker: str) -> list[str]:
    return [str(BIN / "python"), "-m", "pytest", *OPTIONS, marker, f"--junit-xml={results}", *paths]


def _environment() -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        # Hundreds of tests start a Python: each would compile pip or grstack anew where the user's variable lets none
        # write beside the sources, for uv compiles nothing that it installs.
        "PYTHONPYCACHEPREFIX": str(ROOT / "build/pycache"),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def stage_wheels(s: Session) -> None:
    """The wheels that recipes patch, under their plain names: their tests build from the locked original."""
    folder = s.paths.build / TEST_WHEELS
    folder.mkdir(parents=True, exist_ok=True)
    fetched = s.fetch()
    for name in fetched.wheels_all.keys() - fetched.wheels.keys():
        shutil.copy2(fetched.wheels_all[name], folder / name)


def stage_beside(s: Session, name: str) -> None:
    """What goes `name`d beside the image (versions.yaml), in a folder of that name, less what the image itself has."""
    lock = locks.current(s.paths.root, s.versions, name, s.lock.python, s.lock.arch)
    there = {package.name for package in s.lock.packages}
    left = lock.model_copy(update={"packages": tuple(p for p in lock.packages if p.name not in there)})
    folder = s.paths.build / TEST_WHEELS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, path in inputs.fetch(left, "plain", s.paths.wheels, s.settings, s.console).wheels_all.items():
        shutil.copy2(path, folder / file)


def at_once(s: Session) -> int:
    """How many suites this machine takes at once. One keeps half a core to three quarters of one busy (gr_ops 510
    processor seconds of 680), so two cores take three."""
    cores = os.cpu_count() or 1
    fitting = min(cores + cores // 2, host.memory() // needs.MEMORY_OF_A_SUITE)
    return max(1, fitting) if s.engine.isolates else 1


def chosen_by(suite: str, root: str) -> list[str]:
    """pytest's arguments that choose a suite of the sources at `root`, without the suites inside it."""
    inner = [other for other in IN_IMAGE if other.startswith(f"{suite}/")]
    return [*(f"--ignore={root}/{other}" for other in inner), f"--override-ini=pythonpath={root}", f"{root}/{suite}"]


def in_image(
    s: Session,
    suite: str,
    *,
    results: str = "",
    marker: str = IN_THE_GATE,
    memory_mib: int = 0,
    reports: Mapping[str, str] | None = None,
) -> int:
    """`results`: the file's name below build/RESULTS; by the suite's name where none is given.

    `reports`: variables that name files of figures, to be written there too.
    """
    source = Mount(source=ROOT, name="source")
    data = Mount(source=s.paths.data, name="data")
    wheels = Mount(source=s.paths.build / TEST_WHEELS, name="wheels")
    folder = Mount(source=s.paths.build / RESULTS, name="results", writable=True)
    root = s.engine.path_of(source)
    # Without the plugin of ascend-twin: the suites run with torch_npu's task queue, as a program does.
    argv = [
        "python",
        "-m",
        "pytest",
        *OPTIONS,
        marker,
        "-p",
        "no:cacheprovider",
        "-p",
        "no:ascend_twin",
        "--rootdir",
        root,
    ]
    name = suite.replace("/", "-")
    argv += [f"--junit-xml={s.engine.path_of(folder)}/{results or f'{name}.xml'}"]
    argv += chosen_by(suite, root)
    env = {
        "GRSTACK_DATA": s.engine.path_of(data),
        "GRSTACK_WHEELS": s.engine.path_of(wheels),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "2",
        # Threads that spin while they wait take the cores from the other suites: up to ten times the processor seconds.
        "OMP_WAIT_POLICY": "PASSIVE",
        # no pool of compilers beside each of the many processes that import torch
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    if marker != IN_THE_GATE:
        env["GRSTACK_FORK_RANKS"] = "0"  # ranks as torchrun starts them: tests/start/forked_ranks.py
    env |= {variable: f"{s.engine.path_of(folder)}/{file}" for variable, file in (reports or {}).items()}
    if suite.startswith(OPERATORS):
        env["GRSTACK_INSTALLED_OPERATORS"] = "1"
    return s.engine.run(s.plan, argv, mounts=[source, data, wheels, folder], env=env, apart=name, memory_mib=memory_mib)
