"""One operator's build: where its sources are, the compiler and its flags."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORES = HERE.parent / "cores"  # the emulated AI cores, built into every operator library
CORES_BUILT = CORES / "cores.o"  # a home has them compiled: a third of an operator's build, and the same for all

# Of -O3 the emulated cores' loops need this; the rest of it is a tenth of a build.
OPTIMIZED = ("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic")


class BuildError(Exception):
    """A step of the build failed; the message holds the command and its output."""


@dataclass(frozen=True, kw_only=True)
class Build:
    op: Path
    out: Path
    vendor: str
    socs: list[str]
    arch: str
    jobs: int
    ascend_home: Path
    include: list[Path]
    link: list[Path]
    version: str
    work: Path
    sanitize: str = ""
    werror: bool = False
    any_soc: bool = False
    check_only: bool = False
    cores: Path = CORES_BUILT
    cxx: str = "g++"
    log: list[str] = field(default_factory=list)

    @property
    def compiler(self) -> list[str]:
        flags = ["-std=c++17", *(["-O0"] if self.check_only else OPTIMIZED), "-fPIC", "-fvisibility=hidden"]
        flags += ["-Wall", "-Wextra"]
        flags += [f"-ffile-prefix-map={self.op.parent}=operators", f"-ffile-prefix-map={HERE}=opbuild"]
        flags += [f"-ffile-prefix-map={self.work}=build"]
        if self.sanitize:
            flags += [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all", "-g"]
        return [self.cxx, *flags]

    @property
    def api_includes(self) -> list[str]:
        common = self.op.parent / "common"
        folders = [self.op / "op_kernel", self.op / "op_host", *([common] if common.is_dir() else [])]
        return [f"-I{p}" for p in [*folders, *self.include]]

    def run(self, command: list[str]) -> str:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildError(f"+ {shlex.join(command)}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")
        if result.stderr.strip():
            print(result.stderr, file=sys.stderr)
        return result.stdout

    def compile(self, source: Path, target: Path, extra: list[str]) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        self.run([*self.compiler, *extra, "-c", str(source), "-o", str(target)])
        return target
