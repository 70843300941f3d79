"""All wheels of a lock, in the cache."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import tomli
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grstack.errors import NetworkError
from grstack.fetch._cache import STAGED, WheelCache
from grstack.fetch._pip import download
from grstack.files import disk_full
from grstack.locks import Build, Lock, Package
from grstack.network import Settings
from grstack.run import CommandFailed, Runner

DOWNLOADS_AT_ONCE = 4
PROBE_TIMEOUT = 30.0


def fetch_wheels(
    lock: Lock,
    cache_dir: Path,
    settings: Settings,
    *,
    build: Build | None = None,
    console: Console | None = None,
) -> dict[str, Path]:
    """Every wheel of the lock, by file name; what is not in the cache is downloaded and checked.

    `build` chooses the build of torch; by default `choose_build` does. Two runs at once wait for each other.
    An interrupted run keeps the wheels that are complete. Raises HashMismatch, NetworkError, DiskFull.
    """
    console = console or Console(stderr=True)
    cache = WheelCache(cache_dir)
    build = build or choose_build(lock, cache_dir, settings, console=console)
    wanted = lock.wheels(build)
    paths, missing = _look_up(cache, wanted)
    if missing:
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            with FileLock(cache.lock_file):
                paths, missing = _look_up(cache, wanted)  # another run may have fetched them meanwhile
                cache.clean_staging()
                paths |= _download_all(cache, missing, lock, settings, console)
        except OSError as error:
            raise disk_full(error, cache_dir) or error from None
    return {package.filename: paths[package.filename] for package in wanted}


def choose_build(lock: Lock, cache_dir: Path, settings: Settings, *, console: Console | None = None) -> Build:
    """`cpu` where that wheel is cached or its index reachable, else `plain`.

    A plain torch that is already cached is kept: an unchanged rebuild asks no index.
    """
    settled = _settled_build(lock, cache_dir, settings)
    if settled:
        return settled
    runner = Runner(console or Console(stderr=True))
    return "cpu" if all(_locate(package, lock, runner, settings) for package in _cpu_builds(lock)) else "plain"


def known_build(lock: Lock, cache_dir: Path, settings: Settings) -> Build:
    """What `choose_build` would say without asking an index: `plain`, which every index has, where it is open."""
    return _settled_build(lock, cache_dir, settings) or "plain"


def _settled_build(lock: Lock, cache_dir: Path, settings: Settings) -> Build | None:
    if settings.torch_build != "auto":
        return settings.torch_build if settings.torch_build in lock.builds else "plain"
    if lock.builds == ("plain",):
        return "plain"
    cache = WheelCache(cache_dir)
    names = {package.name for package in _cpu_builds(lock)}
    plain = [package for package in lock.packages if package.variant == "plain" and package.name in names]
    if all(cache.find(package) for package in _cpu_builds(lock)):
        return "cpu"
    return "plain" if all(cache.find(package) for package in plain) else None


def _cpu_builds(lock: Lock) -> list[Package]:
    return [package for package in lock.packages if package.variant == "cpu"]


def _look_up(cache: WheelCache, wanted: tuple[Package, ...]) -> tuple[dict[str, Path], list[Package]]:
    paths: dict[str, Path] = {}
    missing = []
    for package in wanted:
        path = cache.find(package)
        if path:
            paths[package.filename] = path
        else:
            missing.append(package)
    return paths, missing


def _download_all(
    cache: WheelCache, missing: list[Package], lock: Lock, settings: Settings, console: Console
) -> dict[str, Path]:
    runner = Runner(console)

    def one(package: Package) -> Path:
        url = _locate(package, lock, runner, settings) if package.variant == "cpu" else None
        if package.variant == "cpu" and url is None:
            raise NetworkError(
                f"no index offers {package.filename}",
                where="the PyTorch index, or torch_index_url in ~/.config/grstack/network.yaml",
                next_command="GRSTACK_TORCH_BUILD=plain, then the same command",
            )
        with tempfile.TemporaryDirectory(prefix=STAGED, dir=cache.staging) as folder:
            file = download(package, Path(folder), python=lock.python, runner=runner, settings=settings, url=url)
            return cache.add(package, file)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    paths: dict[str, Path] = {}
    if missing and not console.is_terminal:
        console.print(f"downloading {len(missing)} wheels", highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(f"wheels of {lock.name}", total=len(missing))
        pool = ThreadPoolExecutor(DOWNLOADS_AT_ONCE)
        try:
            waiting = {pool.submit(one, package): package for package in missing}
            for future in as_completed(waiting):
                paths[waiting[future].filename] = future.result()
                progress.update(bar, advance=1, description=waiting[future].name)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.end_all()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return paths


def _locate(package: Package, lock: Lock, runner: Runner, settings: Settings) -> str | None:
    """The URL of a wheel with a local version (torch 2.6.0+cpu), or None where no index offers the locked file.

    The host's own indexes are asked first, since a mirror may have it, then the PyTorch index as uv knows it.
    """
    own = ["--default-index", settings.torch_index_url] if settings.torch_index_url else []
    for source in (own,) if own else ([], ["--torch-backend", "cpu"]):
        with tempfile.TemporaryDirectory(prefix="grstack-") as name:
            out = Path(name) / "pylock.toml"
            wanted = Path(name) / "requirements.in"
            wanted.write_text(f"{package.name}=={package.version}\n", encoding="utf-8")
            env = settings.environment() | {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "0"}
            argv = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "compile",
                str(wanted),
                "--no-config",
                "--quiet",
                "--no-deps",
                "--no-python-downloads",
                "--format",
                "pylock.toml",
                "--output-file",
                str(out),
                "--python-version",
                lock.python,
                "--python-platform",
                f"{lock.arch}-manylinux_2_28",
                *source,
            ]
            try:
                runner.capture(argv, env=env, timeout=PROBE_TIMEOUT)
            except CommandFailed:
                continue
            for entry in tomli.loads(out.read_text(encoding="utf-8")).get("packages", []):
                for wheel in entry.get("wheels", []):
                    if wheel.get("hashes", {}).get("sha256") == package.sha256:
                        return str(wheel.get("url") or Path(wheel["path"]).resolve().as_uri())
    return None
