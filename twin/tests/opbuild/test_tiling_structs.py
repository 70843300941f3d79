"""Tiling data written with the macros: the kernel's struct lies in memory as the host's class writes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

TWIN = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TWIN / "opbuild"))

from generate import LIBRARY_TILINGS, tiling_structs  # noqa: E402

HOST = """
#include "tiling/tiling_api.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(ProductTilingData)
    TILING_DATA_FIELD_DEF(uint32_t, rows);
    TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, mm);
    TILING_DATA_FIELD_DEF_STRUCT(SoftMaxTiling, softmax);
    TILING_DATA_FIELD_DEF_STRUCT(LayerNormTiling, norm);
    TILING_DATA_FIELD_DEF_STRUCT(RmsNormTiling, rms);
    TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradTiling, grad);
    TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradBetaTiling, beta);
    TILING_DATA_FIELD_DEF_STRUCT(LayerNormSeparateTiling, separate);
    TILING_DATA_FIELD_DEF_ARR(int64_t, 3, starts);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Product, ProductTilingData)
}
"""
WRITE = (
    HOST
    + """
int main()
{
    optiling::ProductTilingData data;
    const int64_t starts[] = {7, 8, 9};
    data.set_rows(3);
    data.set_starts(starts);
    data.mm.set_M(11);
    data.mm.set_mxTypePara(12);
    data.softmax.set_tailReduceSize(13);
    data.norm.set_lastDimValueBack(0.25f);
    data.rms.set_reciprocalOfHLength(0.5f);
    data.rms.set_tailBsLength(14);
    data.grad.set_lastDimValueBackMulTwo(15);
    data.beta.set_reserved(16);
    data.separate.set_k2RRec(0.125f);
    data.separate.set_aCurLength(17);
    data.separate.set_rValueBack(0.75f);
    std::vector<char> bytes(data.GetDataSize());
    data.SaveToBuffer(bytes.data(), bytes.size());
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}
"""
)
READ = """
#include <cstdio>
#include "generated.h"
int main()
{
    TwinDefaultTiling data;
    if (std::fread(&data, 1, sizeof(data) + 1, stdin) != sizeof(data)) {
        return 2;
    }
    std::printf("%u %d %d %u %g %g %u %u %u %g %u %g %lld %lld", data.rows, data.mm.M, data.mm.mxTypePara,
                data.softmax.tailReduceSize, static_cast<double>(data.norm.lastDimValueBack),
                static_cast<double>(data.rms.reciprocalOfHLength),
                data.rms.tailBsLength, data.grad.lastDimValueBackMulTwo, data.beta.reserved,
                static_cast<double>(data.separate.k2RRec), data.separate.aCurLength,
                static_cast<double>(data.separate.rValueBack),
                static_cast<long long>(data.starts[0]),
                static_cast<long long>(data.starts[2]));
}
"""


def build(folder: Path, name: str, *sources: str) -> Path:
    files = []
    for i, text in enumerate(sources):
        files.append(folder / f"{name}{i}.cpp")
        files[-1].write_text(text)
    program = folder / name
    flags = ["-std=c++17", "-Wall", "-Wextra", f"-I{TWIN / 'include'}", f"-I{folder}"]
    subprocess.run(["g++", *flags, "-include", "cstdio", *map(str, files), "-o", str(program)], check=True)
    return program


def test_a_product_tiling_inside_a_class_of_macros(tmp_path):
    dump = build(tmp_path, "dump", HOST, (TWIN / "opbuild/templates/dump_definitions.cpp").read_text())
    classes = json.loads(subprocess.run([str(dump)], capture_output=True, check=True).stdout)["tiling_classes"]
    (tmp_path / "generated.h").write_text(tiling_structs(classes, "ProductTilingData"))
    written = subprocess.run([str(build(tmp_path, "write", WRITE))], capture_output=True, check=True).stdout
    read = subprocess.run([str(build(tmp_path, "read", READ))], input=written, capture_output=True, check=False)
    assert (read.returncode, read.stdout) == (0, b"3 11 12 13 0.25 0.5 14 15 16 0.125 17 0.75 7 9")


def test_the_librarys_own_structs_are_not_written_again():
    header = (TWIN / "include/kernel_tiling/kernel_tiling.h").read_text()
    assert sorted(LIBRARY_TILINGS) == sorted(re.findall(r"^struct (\w+) {", header, re.MULTILINE))
