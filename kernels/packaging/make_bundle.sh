#!/bin/bash
# Packs the contents of several .run packages into one, optionally for one SoC only. Equal input gives equal bytes.
#
#   make_bundle.sh --package NAME --version X.Y.Z [--soc SOC] --out FILE.run PACKAGE.run...
#
# Each operator keeps its vendor and its own package name: a single package installed later replaces its part of the
# bundle, and the other way round. With --soc the configuration and the kernels of all other SoCs are left out.
set -euo pipefail

# shellcheck source=pack.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/pack.sh"

package='' version='' soc='' out=''
while [[ ${1:-} == --* ]]; do
    [[ $# -ge 2 ]] || fail "$1 needs a value"
    case "$1" in
        --package) package=$2 ;;
        --version) version=$2 ;;
        --soc) soc=$2 ;;
        --out) out=$2 ;;
        *) fail "unknown option '$1'; expected --package --version --soc --out" ;;
    esac
    shift 2
done
for option in package version out; do
    [[ -n ${!option} ]] || fail "--$option is missing"
done
check_names "$package" "$version"
[[ $# -gt 0 ]] || fail "no package to bundle was named"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
stage=$scratch/stage
mkdir -p "$stage/packages/vendors"
machine=
for single in "$@"; do
    [[ -f $single ]] || fail "$single is not there"
    rm -rf -- "$scratch/single"
    bash "$single" --noexec --target "$scratch/single" > /dev/null || fail "$single cannot be unpacked"
    for tree in "$scratch/single/packages/vendors"/*/; do
        tree=${tree%/}
        vendor=${tree##*/}
        [[ ! -e $stage/packages/vendors/$vendor ]] || fail "two of the packages hold the vendor $vendor"
        library=$tree/op_api/lib/libcust_opapi.so
        if [[ -f $library ]]; then
            theirs=$(LC_ALL=C readelf -h -- "$library" | sed -n 's/^ *Machine: *//p')
            [[ ${machine:-$theirs} == "$theirs" ]] || fail "$single is for $theirs, the packages before it for $machine"
            machine=$theirs
        fi
        if [[ -n $soc ]]; then
            tbe=$tree/op_impl/ai_core/tbe
            [[ -d $tbe/config/$soc ]] || fail "$single is not for $soc, but for $(socs_of "$tree")"
            for folder in "$tbe/config"/*/ "$tbe/kernel"/*/ "$tbe/kernel/config"/*/; do
                folder=${folder%/}
                [[ ${folder##*/} == "$soc" || $folder == "$tbe/kernel/config" ]] || rm -rf -- "$folder"
            done
            write_info "$tree" socs "$soc"
        fi
        mv -- "$tree" "$stage/packages/vendors/"
    done
done
pack "$stage" "$package" "$version" "$out"
