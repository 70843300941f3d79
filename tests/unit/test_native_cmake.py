"""recipes/wheels/native.cmake: our libraries have no C++ library of their own, whatever the compiler would link."""

from __future__ import annotations

import subprocess
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[2] / "recipes/wheels/native.cmake"
PROJECT = f"""
cmake_minimum_required(VERSION 3.18)
project(words LANGUAGES CXX)
include({NATIVE})
add_library(words SHARED words.cpp)
"""
SOURCE = """
#include <sstream>
std::string words(long number) {
  std::ostringstream out;
  out << number;
  return out.str();
}
"""


def test_the_shared_library_is_linked_where_the_archive_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "words.cpp").write_text(SOURCE)
    archive = "-DCMAKE_SHARED_LINKER_FLAGS=-static-libstdc++"
    run("cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), archive)
    run("cmake", "--build", str(tmp_path / "build"))
    library = str(tmp_path / "build/libwords.so")
    assert "[libstdc++.so.6]" in run("readelf", "-d", library)
    symbols = run("readelf", "--wide", "--dyn-syms", library).splitlines()
    own = [line.split()[-1] for line in symbols if " UND " not in line and "_ZNSt6locale" in line]
    assert own == []


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
