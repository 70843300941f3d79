"""The host's sizes of scratch: each function of one tensor has them, and they keep to each other as documented."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"
FUNCTIONS = re.findall(r"^TWIN_MATH\((\w+),", (INCLUDE / "ascendc/library.h").read_text(), re.MULTILINE)

# name, typeSize, elements, most, least, maxLiveNodeCount, extraBuf
PRINT = """
  for (int64_t n : {1, 64, 1000}) {
    for (uint32_t bytes : {2u, 4u}) {
      uint32_t most = 0, least = 0, live = 0, extra = 0;
      AscendC::Get@MaxMinTmpSize(ge::Shape({2, n}), bytes, false, most, least);
      AscendC::Get@TmpBufferFactorSize(bytes, live, extra);
      std::printf("@ %u %d %u %u %u %u\\n", bytes, static_cast<int>(2 * n), most, least, live, extra);
    }
  }
"""
OTHERS = """
  uint32_t most = 0, least = 0;
  AscendC::GetGeluMaxMinTmpSize(ge::Shape({8, 100}), 4, most, least);
  std::printf("Gelu %u %u %u %u\\n", most, least, AscendC::GetGeluMaxTmpSize(ge::Shape({8, 100}), 4),
              AscendC::GetGeluMinTmpSize(ge::Shape({8, 100}), 4));
  AscendC::GetClampMaxMinTmpSize(ge::Shape({8, 100}), 2, false, most, least);
  std::printf("Clamp %u %u\\n", most, least);
  AscendC::GetPowerMaxMinTmpSize(ge::Shape({1}), ge::Shape({8, 100}), false, 4, false, most, least);
  std::printf("Power %u %u\\n", most, least);
  AscendC::GetSumMaxMinTmpSize(100, 4, false, most, least);
  std::printf("Sum %u %u\\n", most, least);
  fe::PlatFormInfos info;
  AscendC::GetBroadCastMaxMinTmpSize(platform_ascendc::PlatformAscendC(&info), ge::Shape({1, 100}),
                                     ge::Shape({8, 100}), 4, false, most, least);
  std::printf("BroadCast %u %u\\n", most, least);
  AscendC::GetWelfordUpdateMaxMinTmpSize(ge::Shape({1, 100}), 2, 4, false, false, most, least);
  std::printf("WelfordUpdate %u %u\\n", most, least);
  AscendC::GetWelfordFinalizeMaxMinTmpSize(ge::Shape({16}), 4, false, most, least);
  std::printf("WelfordFinalize %u %u\\n", most, least);
"""


def printed(tmp_path: Path, body: str) -> list[list[str]]:
    source = tmp_path / "sizes.cpp"
    source.write_text(f'#include <cstdio>\n#include "tiling/tiling_api.h"\nint main() {{\n{body}\n}}\n')
    command = [
        "g++",
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{INCLUDE}",
        str(source),
        "-o",
        str(tmp_path / "a"),
    ]
    subprocess.run(command, check=True)
    done = subprocess.run([str(tmp_path / "a")], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_sizes_of_functions_of_one_tensor(tmp_path: Path) -> None:
    assert len(FUNCTIONS) > 20 and "Sigmoid" in FUNCTIONS
    lines = printed(tmp_path, "".join(PRINT.replace("@", name) for name in FUNCTIONS))
    assert [name for name, *_ in lines] == [name for name in FUNCTIONS for _ in range(6)]
    for name, *numbers in lines:
        bytes_each, elements, most, least, live, extra = map(int, numbers)
        assert 0 < least <= most, name
        # As documented: the most is so many times the source and something; of a source below 256 bytes, of 256 bytes.
        assert most == live * max(256, elements * bytes_each) + extra, name


def test_sizes_of_the_others(tmp_path: Path) -> None:
    sizes = {name: list(map(int, numbers)) for name, *numbers in printed(tmp_path, OTHERS)}
    assert sizes["Gelu"] == [3200, 256, 3200, 256]
    assert sizes["Clamp"] == [1600, 256]
    assert sizes["Power"] == [3200, 256]
    assert sizes["Sum"] == [400, 400]
    assert sizes["BroadCast"] == [3200, 256]
    assert sizes["WelfordUpdate"] == [800, 512]
    assert sizes["WelfordFinalize"] == [512, 512]
