"""A directory that looks like CANN's toolkit to a build, and writes down what it is asked to do instead of compiling.

Written from the public interface: the CMake package ASC, or msopgen and the project it makes; of a package's header the
options that the documentation of CANN's packages names.
"""

from __future__ import annotations

import json
from pathlib import Path

# What CANN's package is to its user. Its makeself header knows the options below and those that the installer's help
# names; any other ends with the help and 1. The directory of --extract is what stands between the first two "=".
PACKAGE = r"""#!/bin/bash
help() {{ echo "Usage: $0 [--help | --check | --noexec | --extract=<path> | --quiet | --install-path=<path>]"; }}
execute=y target=
while [[ -n $* ]]; do
    case "$1" in
        -h | --help) help; exit 0 ;;
        -q | --quiet | --nox11 | --check | --install-path=*) ;;
        --noexec) execute=n ;;
        --extract=*) target=$(echo "$1" | cut -d= -f2) ;;
        *) help; exit 1 ;;
    esac
    shift
done
[[ $execute == n && -n $target ]] || {{ echo "this stand-in only unpacks" >&2; exit 1; }}
for soc in {socs}; do
    mkdir -p "$target/packages/vendors/{vendor}/op_impl/ai_core/tbe/config/$soc"
    echo '{{"X": {{}}}}' > "$target/packages/vendors/{vendor}/op_impl/ai_core/tbe/config/$soc/aic-$soc-ops-info.json"
done
mkdir -p "$target/packages/vendors/{vendor}/op_api/lib"
echo "not a library" > "$target/packages/vendors/{vendor}/op_api/lib/libcust_opapi.so"
"""

ASC = r"""
set(log $ENV{FAKE_CANN_LOG})
file(APPEND ${log} "find_package(ASC), ASCEND_COMPUTE_UNIT=${ASCEND_COMPUTE_UNIT}, vendor_name=${vendor_name}, \
ASCEND_PYTHON_EXECUTABLE=${ASCEND_PYTHON_EXECUTABLE}\n")
file(APPEND ${log} "    libraries in $ENV{LD_LIBRARY_PATH}\n")
foreach(name npu_op_package npu_op_code_gen npu_op_library npu_op_kernel_options npu_op_kernel_library
    npu_op_package_add)
  cmake_language(EVAL CODE "
    macro(${name})
      string(JOIN \" \" given \${ARGN})
      file(APPEND \${log} \"${name}(\${given})\\n\")
      fake_${name}(\${ARGN})
    endmacro()
    macro(fake_${name})
    endmacro()")
endforeach()
macro(fake_npu_op_code_gen)
  file(WRITE ${ASCEND_AUTOGEN_PATH}/aclnn_generated.cpp "")
  file(WRITE ${ASCEND_AUTOGEN_PATH}/op_proto.cc "")
endmacro()
macro(fake_npu_op_kernel_library target keyword folder)
  file(GLOB_RECURSE shipped RELATIVE ${folder} ${folder}/*)
  foreach(name ${shipped})
    file(APPEND ${log} "    ships ${name}\n")
  endforeach()
endmacro()
macro(fake_npu_op_package_add)
  string(REPLACE ";" " " socs "${ASCEND_COMPUTE_UNIT}")
  add_custom_target(package COMMAND $ENV{FAKE_CANN_PACK} "${socs}" ${vendor_name}
    ${CMAKE_BINARY_DIR}/custom_opp_linux_x86_64.run VERBATIM)
endmacro()
"""

MSOPGEN = r"""#!/bin/bash
set -eu
echo "msopgen $*" >> "$FAKE_CANN_LOG"
sed 's/^/    /' "$3" >> "$FAKE_CANN_LOG"
project=${!#}
mkdir -p "$project"/{op_host,op_kernel,framework,cmake,scripts}
touch "$project"/op_host/{CMakeLists.txt,skeleton.cpp,skeleton_tiling.h}
touch "$project"/op_kernel/{CMakeLists.txt,skeleton.cpp}
cp "$(dirname "$0")/presets.json" "$project/CMakePresets.json"
cp "$(dirname "$0")/project_build.sh" "$project/build.sh"
"""

BUILD = r"""#!/bin/bash
set -eu
cd "$(dirname "$0")"
{
    echo "build.sh, with $(type -P python3), libraries in ${LD_LIBRARY_PATH:-}, in a project of"
    find op_host op_kernel -type f | LC_ALL=C sort | sed 's/^/    /'
    sed 's/^/    /' CMakePresets.json
} >> "$FAKE_CANN_LOG"
value() { python3 -c 'import json, sys; presets = json.load(open("CMakePresets.json"))["configurePresets"]
print(presets[0]["cacheVariables"][sys.argv[1]]["value"])' "$1"; }
units=$(value ASCEND_COMPUTE_UNIT)
mkdir -p build_out
"$FAKE_CANN_PACK" "${units//;/ }" "$(value vendor_name)" build_out/custom_opp_linux_x86_64.run
"""


def make_toolkit(home: Path, form: str) -> dict[str, str]:
    """Writes the toolkit in one form (functions, msopgen); returns the variables that a build with it needs."""
    (home / "compiler").mkdir(parents=True)
    (home / "compiler/version.info").write_text("Version=8.3.0.1.200\nversion_dir=8.3.RC1\n")
    (home / "runtime/lib64/stub").mkdir(parents=True)
    if form == "functions":
        _write(home / "compiler/tikcpp/ascendc_kernel_cmake/ASCConfig.cmake", ASC)
    else:
        tools = home / "python/site-packages/bin"
        _write(tools / "msopgen", MSOPGEN)
        _write(tools / "project_build.sh", BUILD)
        given = {
            "CMAKE_BUILD_TYPE": "Debug",
            "ASCEND_COMPUTE_UNIT": "ascend910b1",
            "vendor_name": "customize",
            "ASCEND_PYTHON_EXECUTABLE": "python3",
            "CMAKE_INSTALL_PREFIX": "${sourceDir}/build_out",
        }
        variables = {name: {"type": "STRING", "value": value} for name, value in given.items()}
        preset = {"name": "default", "binaryDir": "${sourceDir}/build_out", "cacheVariables": variables}
        _write(tools / "presets.json", json.dumps({"version": 1, "configurePresets": [preset]}))
    pack = home / "pack"
    text = PACKAGE.format(socs="$1", vendor="$2")
    _write(pack, "#!/bin/bash\n" + _packer(text))
    return {"ASCEND_HOME_PATH": str(home), "FAKE_CANN_LOG": str(home / "log"), "FAKE_CANN_PACK": str(pack)}


def _packer(text: str) -> str:
    """A program pack SOCS VENDOR FILE that writes the package: its two words are put in by sed."""
    quoted = text.replace("$1; do", "@SOCS@; do").replace("vendors/$2", "vendors/@VENDOR@")
    return f'sed -e "s/@SOCS@/$1/" -e "s/@VENDOR@/$2/" > "$3" <<\'END\'\n{quoted}END\n'


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
