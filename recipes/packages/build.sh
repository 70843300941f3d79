#!/usr/bin/env bash
# From the operators' packages, which hold all their SoCs: for each SoC one package of all operators and one of each.
# The names tell apart what must not be mixed up: mxrec_opp_<all|op>_<soc>_<twin|cann>_<arch>.run
set -euo pipefail

packaging=$GRSTACK_SOURCE/kernels/packaging
version=$(< "$packaging/VERSION")
suffix=${GRSTACK_PLATFORM}_$GRSTACK_ARCH
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

declare -A packages_of=() # SoC -> operators
for package in "$GRSTACK_DEPS"/operators/*/mxrec_opp_*.run; do
    operator=$(basename -- "$(dirname -- "$package")")
    bash "$package" --noexec --target "$scratch/$operator" > /dev/null
    socs=$(sed -n 's/^socs=//p' "$scratch/$operator/packages/vendors"/*/version.info)
    [[ -n $socs ]] || { echo "packages: $package names no SoC in its version.info" >&2; exit 1; }
    for soc in ${socs//,/ }; do
        packages_of[$soc]+=" $operator"
    done
done

# make NAME SOC OPERATOR...
make() {
    local name=$1 soc=$2 operator
    shift 2
    local -a files=()
    for operator in "$@"; do
        files+=("$GRSTACK_DEPS/operators/$operator/mxrec_opp_$operator.run")
    done
    bash "$packaging/make_bundle.sh" --package "mxrec_opp_${name}_$soc" --version "$version" --soc "$soc" \
        --out "$GRSTACK_OUT/mxrec_opp_${name}_${soc}_$suffix.run" "${files[@]}"
}

for soc in "${!packages_of[@]}"; do
    # shellcheck disable=SC2086  # names of operators hold no space
    make all "$soc" ${packages_of[$soc]}
    for operator in ${packages_of[$soc]}; do
        make "$operator" "$soc" "$operator"
    done
done
