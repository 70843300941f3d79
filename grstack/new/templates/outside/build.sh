#!/usr/bin/env bash
# Builds the operator for $ASCEND_HOME_PATH (the emulated platform's or the CANN toolkit), then the torch binding.
#   SOCS=ascend910b,ascend910_93 PYTHON=python JOBS=2 ./build.sh
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python}
socs=${SOCS:-ascend910b,ascend910_93}
vendor=custom_new_operator
build=$here/build
home=${ASCEND_HOME_PATH:?not set; type: python -m ascend_twin run ./build.sh, or source the set_env.sh of CANN}

place_of() { # where a Python package is, without importing it: torch_npu's import needs a device
    "$python" -c 'import importlib.util as u, sys; print(*u.find_spec(sys.argv[1]).submodule_search_locations)' "$1"
}

torch=$(place_of torch)
torch_npu=$(place_of torch_npu)
abi=$(TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$python" -c 'import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))')
mkdir -p "$build/no_common_headers"

if [[ -f $home/tools/opbuild/opbuild.py ]]; then # the emulated platform
    "$python" "$home/tools/opbuild/opbuild.py" --op "$here" --out "$build" --vendor "$vendor" --soc "$socs" \
        --jobs "${JOBS:-2}" --ascend-home "$home" --include "$torch_npu/include/third_party/acl/inc" --werror
else # the CANN toolkit
    cmake -S "$here/cann" -B "$build/cann" -DCMAKE_BUILD_TYPE=Release "-DOPERATOR_DIR=$here" \
        "-DCOMMON_DIR=$build/no_common_headers" "-DASCEND_CANN_PACKAGE_PATH=$home" "-DASCEND_COMPUTE_UNIT=${socs//,/;}" \
        "-Dvendor_name=$vendor" "-DPython3_EXECUTABLE=$(command -v "$python")"
    cmake --build "$build/cann" --parallel "${JOBS:-2}"
    cmake --build "$build/cann" --target package
    package=$(find "$build/cann" -maxdepth 2 -name '*.run' -print -quit)
    [[ -n $package ]] || { echo "build.sh: the toolkit left no .run package in $build/cann" >&2; exit 1; }
    bash "$package" --noexec --quiet --target "$build"
fi

cmake -S "$here/binding" -B "$build/binding" -DCMAKE_BUILD_TYPE=Release "-DTORCH_DIR=$torch" \
    "-DTORCH_NPU_DIR=$torch_npu" "-DTORCH_CXX11_ABI=$abi"
cmake --build "$build/binding" --parallel "${JOBS:-2}"
echo "built $build/packages/vendors/$vendor and $build/binding/libnew_operator.so"
