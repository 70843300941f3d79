"""The tests that need GPUs, on this machine and with the PyTorch of this Python: python tests/on_gpu.py [JOB ...]

No image and no engine: torch, triton, pytest, cmake and ninja are enough; pytest-xdist makes it quicker. The C++
libraries of the packages are compiled for this torch first. Each job has a GPU, and those that are about
several run alone. Logs go to LOGS, a table comes last.

jobs    gr_ops, hybrid_torchrec (its collections need torchrec and fbgemm_gpu), gr_model, several (two GPUs, nccl),
        smoke, smoke-several (they need --data, a folder that holds ml-100k/)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = {  # the variable by which a package finds its library, and the library's sources
    "GR_OPS_LIBRARY_DIR": "kernels/gr_ops",
    "HYBRID_TORCHREC_LIBRARY_DIR": "embeddings/hybrid_torchrec",
    "EMBCACHE_LIBRARY_DIR": "embeddings/torchrec_embcache",
}
PACKAGES = ("kernels/gr_ops", "embeddings/hybrid_torchrec", "embeddings/torchrec_embcache", "")
SUITES = {
    "gr_ops": "kernels/gr_ops/tests/cuda",
    "hybrid_torchrec": "embeddings/hybrid_torchrec/tests/cuda",
    "gr_model": "gr_model/tests/cuda",
}
ALONE = {"several": "gr_model/tests/cuda/test_over_nccl.py"}
# versions, elf and traps speak of an image's packages.
SMOKE, SMOKE_OF_SEVERAL = ("kernels", "losses", "quality", "resume"), ("collectives",)
NEEDED = {"torch": "torch", "triton": "triton", "numpy": "numpy", "pytest": "pytest"}  # modules and their packages
OF_SMOKE = {"elftools": "pyelftools"}
STANDARD_20 = (2, 11)  # the first torch whose headers want C++20


@dataclass
class Job:
    name: str
    argv: list[str]
    alone: bool = False
    code: int | None = None
    seconds: float = 0.0
    last: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def build(folder: Path, logs: Path) -> dict[str, str]:
    """Compiles the libraries, side by side; the variables by which the packages find them."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    common = [
        "-G",
        "Ninja",
        f"-DTORCH_DIR={Path(torch.__file__).parent}",
        f"-DTORCH_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-DCMAKE_CXX_STANDARD={20 if version >= STANDARD_20 else 17}",
    ]
    with ThreadPoolExecutor() as pool:
        made = {name: pool.submit(_build, source, folder, logs, common) for name, source in LIBRARIES.items()}
        return {name: library.result() for name, library in made.items()}


def _build(source: str, folder: Path, logs: Path, options: list[str]) -> str:
    out = folder / Path(source).name
    with (logs / f"build-{out.name}.log").open("w") as log:
        for argv in (
            ["cmake", "-S", str(ROOT / source), "-B", str(out), *options],
            ["cmake", "--build", str(out), "--parallel", str(len(os.sched_getaffinity(0)))],
        ):
            if subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT).returncode:
                raise SystemExit(f"{' '.join(argv)} failed; see {log.name}")
    return str(out)


def jobs(chosen: list[str], data: Path | None, logs: Path, workers: int, pytest_options: list[str]) -> list[Job]:
    made = []
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", "--durations=5"]
    pytest += [f"--rootdir={ROOT}", "--disable-warnings", *pytest_options]
    side_by_side = ["-n", str(workers)] if workers > 1 and importlib.util.find_spec("xdist") else []
    alone = [f"--ignore={ROOT / path}" for path in ALONE.values()]
    for name, path in SUITES.items():
        made.append(Job(name, [*pytest, *side_by_side, *alone, str(ROOT / path)]))
    for name, path in ALONE.items():
        made.append(Job(name, [*pytest, str(ROOT / path)], alone=True))
    if data:
        made.append(Job("smoke", smoke(data, logs, "smoke", SMOKE)))
        made.append(Job("smoke-several", smoke(data, logs, "smoke-several", SMOKE_OF_SEVERAL), alone=True))
    return [job for job in made if job.name in chosen]


def smoke(data: Path, logs: Path, name: str, checks: tuple[str, ...]) -> list[str]:
    about = {"target": "cuda", "platform": "none", "python": platform.python_version(), "arch": platform.machine()}
    manifest, lock = logs / "manifest.json", logs / "lock.json"
    manifest.write_text(json.dumps(about))
    lock.write_text(json.dumps({"packages": []}))
    argv = [sys.executable, "-m", "smoke_tests", "--out", str(logs / name), "--data-dir", str(data.resolve())]
    argv += ["--lock", str(lock), "--manifest", str(manifest)]
    return [*argv, *(word for check in checks for word in ("--only", check))]


def run(job: Job, gpus: str, environment: dict[str, str], logs: Path, limit: float) -> None:
    begin = time.monotonic()
    log = logs / f"{job.name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            job.argv,
            cwd=ROOT,
            env={**environment, **job.environment, "CUDA_VISIBLE_DEVICES": gpus},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            job.code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.terminate()
            job.code = process.wait()
    job.seconds = time.monotonic() - begin
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    job.last = lines[-1] if lines else ""


def run_all(
    every: list[Job], gpus: list[str], at_once: int, environment: dict[str, str], logs: Path, limit: float
) -> None:
    """Those of one GPU side by side, `at_once` on each, the first begun first; then those that run alone."""
    waiting = [job for job in every if not job.alone]
    lock = threading.Lock()

    def work(gpu: str) -> None:
        while True:
            with lock:
                if not waiting:
                    return
                job = waiting.pop(0)
            run(job, gpu, environment, logs, limit)

    threads = [threading.Thread(target=work, args=(gpu,)) for _ in range(at_once) for gpu in gpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in every:
        if job.alone:
            run(job, ",".join(gpus), environment, logs, limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SUITES, *ALONE, "smoke", "smoke-several"]
    parser.add_argument("job", nargs="*", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/on-gpu", help="where the libraries are compiled")
    parser.add_argument("--logs", type=Path, default=ROOT / "build/on-gpu/logs")
    parser.add_argument("--data", type=Path, help="a folder that holds ml-100k/, for the smoke test")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for a job")
    parser.add_argument("--workers", type=int, default=4, help="processes of a suite on its GPU (pytest-xdist)")
    parser.add_argument("--at-once", type=int, default=1, help="jobs on a GPU at once")
    parser.add_argument("--pytest", nargs="*", default=[], metavar="OPTION", help="more options, as --pytest=-x")
    options = parser.parse_args()
    unknown = set(options.job) - set(names)
    if unknown:
        parser.error(f"no job {', '.join(sorted(unknown))}; valid: {', '.join(names)}")
    smoke_too = options.data and (not options.job or any(name.startswith("smoke") for name in options.job))
    needed = {**NEEDED, **(OF_SMOKE if smoke_too else {})}
    lacking = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    lacking += [name for name in ("cmake", "ninja") if shutil.which(name) is None]
    if lacking:
        print(f"{sys.executable} lacks {', '.join(lacking)}\n  next:  pip install {' '.join(lacking)}", file=sys.stderr)
        return 1
    import torch

    count = torch.cuda.device_count()
    if not count:
        print(f"no GPU is here that torch {torch.__version__} can use", file=sys.stderr)
        return 1
    options.logs.mkdir(parents=True, exist_ok=True)
    path = [str(ROOT / package) for package in PACKAGES]
    environment = {
        **os.environ,
        **build(options.build, options.logs),
        "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = given.split(",") if given else [str(number) for number in range(count)]
    every = jobs(options.job or names, options.data, options.logs, options.workers, options.pytest)
    run_all(every, gpus, options.at_once, environment, options.logs, options.limit)
    print(f"{count} x {torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}")
    for job in every:
        result = "passed" if job.code == 0 else f"exit code {job.code}"
        print(f"{job.name:16} {result:14} {job.seconds:6.0f} s  {job.last}")
    return 0 if every and all(job.code == 0 for job in every) else 1


if __name__ == "__main__":
    sys.exit(main())
