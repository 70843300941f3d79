#!/usr/bin/env bash
# Compiles the operator $GRSTACK_OPERATOR for $GRSTACK_SOCS and packs it as mxrec_opp_<op>.run.
# Platform twin: by the twin's operator builder. Platform cann: by the toolkit in ASCEND_HOME_PATH.
set -euo pipefail

# Its compilers are found by the toolkit's own environment. First, since it is written for shells without -e and -u, and
# sets what it likes.
if [[ $GRSTACK_PLATFORM == cann && -n ${ASCEND_HOME_PATH:-} ]]; then
    for script in "$ASCEND_HOME_PATH"/{../,}set_env.sh; do # up to CANN 8.3 beside the folder, from 8.5 on in it
        [[ -f $script ]] || continue
        set +eu
        # shellcheck source=/dev/null
        source "$script"
        set -eu
        break
    done
fi

recipe=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
operators=$GRSTACK_SOURCE/kernels/operators
packaging=$GRSTACK_SOURCE/kernels/packaging
socs=${GRSTACK_SOCS:?the SoCs to build for, separated by commas (versions.yaml)}
version=$(< "$packaging/VERSION")
set_env="source /usr/local/Ascend/ascend-toolkit/set_env.sh (from CANN 8.5 on: /usr/local/Ascend/cann/set_env.sh)"
# shellcheck source=../../kernels/packaging/compatible.sh
source "$packaging/compatible.sh"
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

fail() {
    echo "operators: $1" >&2
    exit 1
}

run() {
    printf '+ %s\n' "${*@Q}"
    "$@"
}

# build_twin OPERATOR VENDOR TREE
build_twin() {
    local home=$GRSTACK_DEPS/twin
    local builder=$home/tools/opbuild/opbuild.py
    [[ -f $builder ]] || fail "the twin has no operator builder ($builder); build the component twin first"
    # The twin's home has no acl/*.h: they come from the torch_npu wheel, which must not be imported for it.
    local torch_npu
    torch_npu=$("$GRSTACK_PYTHON" -c 'import importlib.util as u; print(*u.find_spec("torch_npu").submodule_search_locations)')
    run "$GRSTACK_PYTHON" "$builder" --op "$operators/$1" --out "$3" --vendor "$2" --soc "$socs" \
        --arch "$GRSTACK_ARCH" --jobs "${GRSTACK_JOBS:-2}" --ascend-home "$home" \
        --include "$torch_npu/include/third_party/acl/inc" --werror
}

# release HOME: the release of a toolkit. `Version` is the compiler's own number, 7.6.0.1.220 of CANN 8.0.0.
release() {
    local info key value
    for info in "$1/compiler/version.info" "$1/opp/version.info" "$1"/*-linux/ascend_toolkit_install.info; do
        for key in version_dir '[Vv]ersion'; do
            value=$(sed -n "s/^$key=//p" "$info" 2> /dev/null | head -n 1) || true
            [[ -z $value ]] || { echo "$value" && return; }
        done
    done
}

# The tiling data of the HSTU operators holds AscendC::tiling::TCubeTiling, which is declared from CANN 8.2 on.
check_toolkit() {
    local found
    found=$(release "$1")
    [[ -n $found ]] || fail "$1 names no version in compiler/version.info; is it a toolkit? Type: $set_env"
    [[ $(printf '%s\n' 8.2 "$found" | sort -V | head -n 1) == 8.2 ]] || fail \
        "CANN $found lacks AscendC::tiling::TCubeTiling, which the HSTU operators need; install CANN 8.2 or newer"
}

# without_venv: PATH without the environment. The toolkit's compilers are Python programs, and the packages that CANN asks
# for (protobuf 3.20, cffi and others) stand beside the base's own Python.
without_venv() {
    tr : '\n' <<< "$PATH" | grep -vxF -- "$(dirname -- "$GRSTACK_PYTHON")" | paste -sd :
}

# build_cann OPERATOR VENDOR TREE
build_cann() {
    local home=${ASCEND_HOME_PATH:-} package python
    [[ -n $home ]] || fail "ASCEND_HOME_PATH is not set; install CANN's toolkit and type: $set_env"
    check_toolkit "$home"
    PATH=$(without_venv)
    python=$(type -P python3) || fail "the toolkit's compilers need a python3 on PATH beside $GRSTACK_PYTHON; install it"
    LD_LIBRARY_PATH=$(with_stubs "$home" "${LD_LIBRARY_PATH:-}")
    export PATH LD_LIBRARY_PATH
    run cmake -S "$recipe/cann" -B "$scratch/cann/$1" -DCMAKE_BUILD_TYPE=Release "-DOPERATOR_DIR=$operators/$1" \
        "-DCOMMON_DIR=$operators/common" "-DASCEND_CANN_PACKAGE_PATH=$home" "-DASCEND_COMPUTE_UNIT=${socs//,/;}" \
        "-Dvendor_name=$2" "-DPython3_EXECUTABLE=$GRSTACK_PYTHON" "-DASCEND_PYTHON_EXECUTABLE=$python"
    run cmake --build "$scratch/cann/$1" --parallel "${GRSTACK_JOBS:-2}"
    run cmake --build "$scratch/cann/$1" --target package
    # Only the tree is taken from CANN's package: the installer is ours.
    package=$(find "$scratch/cann/$1" -maxdepth 2 -name '*.run' -print -quit)
    [[ -n $package ]] || fail "CANN's build of $1 left no .run package in $scratch/cann/$1; see its output above"
    run bash "$package" --noexec --quiet "--extract=$3" # its header has no --target, and ends with its help
    [[ -d $3/packages/vendors/$2 ]] || fail "CANN's package of $1 does not hold vendor $2"
    if [[ ! -f $3/packages/vendors/$2/version.info ]]; then
        echo "custom_opp_compiler_version=$(release "$home")" > "$3/packages/vendors/$2/version.info"
    fi
}

# A SoC that a definition does not declare is left out by CANN's build without an error.
check_socs() {
    local soc built
    for soc in ${socs//,/ }; do
        [[ -s $2/op_impl/ai_core/tbe/config/$soc/aic-$soc-ops-info.json ]] || {
            built=$(cd "$2/op_impl/ai_core/tbe/config" && echo *)
            fail "operator $1 was to be built for $soc and came out for $built; make versions.yaml and its definition agree"
        }
    done
}

build() {
    local operator=$1 tree=$scratch/$1
    local vendor=mxrec_$operator
    [[ -d $operators/$operator/op_host ]] || fail \
        "there is no operator '$operator'; known: $(cd "$operators" && echo */op_host | sed 's,/op_host,,g')"
    mkdir -p "$tree"
    "build_$GRSTACK_PLATFORM" "$operator" "$vendor" "$tree"
    check_socs "$operator" "$tree/packages/vendors/$vendor"
    local interface
    interface=$("$GRSTACK_PYTHON" "$packaging/interface.py" "$operators/$operator")
    echo "interface=$interface" >> "$tree/packages/vendors/$vendor/version.info"
    run bash "$packaging/make_run.sh" --tree "$tree" --vendor "$vendor" --package "mxrec_opp_$operator" \
        --version "$version" --out "$GRSTACK_OUT/mxrec_opp_$operator.run"
}

case "$GRSTACK_PLATFORM" in
    twin | cann) ;;
    *) fail "unknown platform '$GRSTACK_PLATFORM'; known: twin, cann" ;;
esac
build "${GRSTACK_OPERATOR:?the operator to build}"
