"""The machine of a SoC; one that nobody knows has none, rather than that of another."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

TWIN = Path(__file__).resolve().parents[2]
ASK = """
#include <cstdio>

#include "opcall/platform.h"

int main(int, char **arguments)
{
    const auto machine = twin::PlatformOf(arguments[1]);
    if (!machine) {
        std::printf("none of %s", twin::KnownSocs().c_str());
        return 1;
    }
    std::printf("%s %u %u %llu", twin::ShortSocName(machine->soc).c_str(), machine->cubeCores, machine->vectorCores,
                static_cast<unsigned long long>(machine->l2Bytes >> 20));
}
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("platform")
    (folder / "ask.cpp").write_text(ASK)
    includes = [f"-I{TWIN / 'cores'}", f"-I{TWIN / 'include'}"]
    sources = [str(folder / "ask.cpp"), str(TWIN / "cores/opcall/platform.cpp")]
    subprocess.run(["g++", "-std=c++17", *includes, *sources, "-o", str(folder / "ask")], check=True)
    return lambda soc: subprocess.run([str(folder / "ask"), soc], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(  # cube cores, vector cores, MiB of L2: the published table
    ("soc", "machine"),
    [
        ("Ascend910B1", "ascend910b 24 48 192"),
        ("Ascend910B2C", "ascend910b 24 48 192"),
        ("Ascend910B3", "ascend910b 20 40 192"),
        ("Ascend910B4", "ascend910b 20 40 96"),
        ("Ascend910B4-1", "ascend910b 20 40 168"),
        ("Ascend910_9391", "ascend910_93 24 48 192"),
        ("Ascend910_9382", "ascend910_93 24 48 192"),
        ("Ascend910_9372", "ascend910_93 20 40 192"),
        ("Ascend910_9362", "ascend910_93 20 40 192"),
        ("Ascend310P3", "ascend310p 8 8 16"),
    ],
)
def test_a_known_soc(ask, soc, machine):
    assert ask(soc).stdout == machine


@pytest.mark.parametrize("soc", ["", "Ascend950", "Ascend910B9", "ascend910b", "Ascend910B2X"])
def test_an_unknown_soc_has_no_machine(ask, soc):
    done = ask(soc)
    assert done.returncode == 1
    assert done.stdout.startswith("none of Ascend910B Ascend910B1 Ascend910B2 ") and "Ascend910_93*" in done.stdout
