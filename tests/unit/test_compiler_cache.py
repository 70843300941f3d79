"""ccache before the compilers of component builds: with the real ccache and the host's compiler."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from grstack.engines import compiler_cache
from grstack.engines.compiler_cache import COMPILERS, CompilerCache


@pytest.fixture
def compiled(tmp_path: Path) -> CompilerCache:
    found = compiler_cache.prepare(tmp_path / "cache", "none", {})
    assert found is not None, "the lock of the tools brings ccache"
    return found


def build(compiled: CompilerCache, text: str, compiler: str = "g++") -> bytes:
    """Compiles as a recipe does: a staged copy of the sources, in a temporary folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "one.cpp").write_text(text)
        env = dict(os.environ) | compiled.variables(str(compiled.store), tempfile.gettempdir())
        env["PATH"] = f"{compiled.programs}{os.pathsep}{env['PATH']}"
        argv = [compiler, "-O2", f"-ffile-prefix-map={folder}=.", "-c", f"{folder}/one.cpp", "-o", f"{folder}/one.o"]
        subprocess.run(argv, env=env, cwd=folder, check=True)
        return (Path(folder) / "one.o").read_bytes()


def hits(compiled: CompilerCache) -> int:
    env = {**os.environ, "CCACHE_DIR": str(compiled.store)}
    argv = [str(compiled.programs / "ccache"), "--print-stats"]
    lines = subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    counts = dict(line.split("\t") for line in lines)
    return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])


@pytest.mark.parametrize("compiler", ["g++", "c++"])
def test_the_same_text_is_compiled_once_whatever_its_folder(compiled: CompilerCache, compiler: str) -> None:
    first = build(compiled, "int one() { return 1; }\n", compiler)
    assert hits(compiled) == 0
    assert build(compiled, "int one() { return 1; }\n", compiler) == first
    assert hits(compiled) == 1


def test_another_text_is_compiled(compiled: CompilerCache) -> None:
    first = build(compiled, "int one() { return 1; }\n")
    assert build(compiled, "int one() { return 2; }\n") != first
    assert hits(compiled) == 0


def test_the_object_is_the_compiler_s_own(compiled: CompilerCache, tmp_path: Path) -> None:
    text = "int one() { return 1; }\n"
    build(compiled, text)
    kept = build(compiled, text)
    (tmp_path / "one.cpp").write_text(text)
    argv = ["g++", "-O2", f"-ffile-prefix-map={tmp_path}=.", "-c", f"{tmp_path}/one.cpp", "-o", f"{tmp_path}/one.o"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    assert kept == (tmp_path / "one.o").read_bytes()


def test_a_build_can_do_without(tmp_path: Path) -> None:
    assert compiler_cache.prepare(tmp_path, "none", {"CCACHE_DISABLE": "1"}) is None
    assert not list(tmp_path.iterdir())


def test_a_second_build_finds_the_same_programs(tmp_path: Path) -> None:
    first = compiler_cache.prepare(tmp_path, "docker", {})
    assert first is not None
    number = (first.programs / "ccache").stat().st_ino
    assert compiler_cache.prepare(tmp_path, "docker", {}) == first
    assert (first.programs / "ccache").stat().st_ino == number
    assert {path.name for path in first.programs.iterdir()} == {"ccache", *COMPILERS}
