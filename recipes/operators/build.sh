#!/usr/bin/env bash
# Compiles the operator $GRSTACK_OPERATOR for $GRSTACK_SOCS and packs it as mxrec_opp_<op>.run.
# Platform twin: by the twin's operator builder. Platform cann: by the toolkit in ASCEND_HOME_PATH.
set -euo pipefail

recipe=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
operators=$GRSTACK_SOURCE/kernels/operators
packaging=$GRSTACK_SOURCE/kernels/packaging
socs=${GRSTACK_SOCS:?the SoCs to build for, separated by commas (versions.yaml)}
version=$(< "$packaging/VERSION")
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

# The tiling data of the HSTU operators holds AscendC::tiling::TCubeTiling, which is declared from CANN 8.2 on.
check_toolkit() {
    local version
    version=$(sed -n 's/^[Vv]ersion=//p' "$1/compiler/version.info" 2> /dev/null || true)
    [[ -n $version ]] || fail \
        "$1/compiler/version.info names no version; type: source /usr/local/Ascend/ascend-toolkit/set_env.sh"
    [[ $(printf '%s\n' 8.2 "$version" | sort -V | head -n 1) == 8.2 ]] || fail \
        "CANN $version lacks AscendC::tiling::TCubeTiling, which the HSTU operators need; install CANN 8.2 or newer"
}

# build_cann OPERATOR VENDOR TREE
build_cann() {
    local home=${ASCEND_HOME_PATH:-} package
    [[ -n $home ]] || fail \
        "ASCEND_HOME_PATH is not set; install CANN's toolkit and type: source /usr/local/Ascend/ascend-toolkit/set_env.sh"
    check_toolkit "$home"
    run cmake -S "$recipe/cann" -B "$scratch/cann/$1" -DCMAKE_BUILD_TYPE=Release "-DOPERATOR_DIR=$operators/$1" \
        "-DCOMMON_DIR=$operators/common" "-DASCEND_CANN_PACKAGE_PATH=$home" "-DASCEND_COMPUTE_UNIT=${socs//,/;}" \
        "-Dvendor_name=$2" "-DPython3_EXECUTABLE=$GRSTACK_PYTHON"
    run cmake --build "$scratch/cann/$1" --parallel "${GRSTACK_JOBS:-2}"
    run cmake --build "$scratch/cann/$1" --target package
    # Only the tree is taken from CANN's package: the installer is ours.
    package=$(find "$scratch/cann/$1" -maxdepth 2 -name '*.run' -print -quit)
    [[ -n $package ]] || fail "CANN's build of $1 left no .run package in $scratch/cann/$1; see its output above"
    run bash "$package" --noexec --quiet --target "$3"
    [[ -d $3/packages/vendors/$2 ]] || fail "CANN's package of $1 does not hold vendor $2"
    if [[ ! -f $3/packages/vendors/$2/version.info ]]; then
        local toolkit
        toolkit=$(sed -n 's/^[Vv]ersion=//p' "$home/compiler/version.info")
        echo "custom_opp_compiler_version=$toolkit" > "$3/packages/vendors/$2/version.info"
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
