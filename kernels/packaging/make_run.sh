#!/bin/bash
# Packs one built vendor tree into a self-extracting installer. Equal input gives equal bytes.
#
#   make_run.sh --tree DIR --vendor NAME --package NAME --version X.Y.Z --out FILE.run
#
# DIR holds packages/vendors/<vendor> as the operator builder leaves it. SOURCE_DATE_EPOCH is the time of all entries.
set -euo pipefail

# shellcheck source=pack.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/pack.sh"

tree='' vendor='' package='' version='' out=''
while [[ $# -gt 0 ]]; do
    [[ $# -ge 2 ]] || fail "$1 needs a value"
    case "$1" in
        --tree) tree=$2 ;;
        --vendor) vendor=$2 ;;
        --package) package=$2 ;;
        --version) version=$2 ;;
        --out) out=$2 ;;
        *) fail "unknown option '$1'; expected --tree --vendor --package --version --out" ;;
    esac
    shift 2
done
for option in tree vendor package version out; do
    [[ -n ${!option} ]] || fail "--$option is missing"
done
# The vendor becomes part of a Python package name, and 'customize' is the default that teams overwrite each other with.
[[ $vendor =~ ^[A-Za-z0-9_]+$ ]] || fail "--vendor may hold letters, digits and underscores only, got '$vendor'"
[[ $vendor != customize ]] || fail "--vendor 'customize' is the vendor-neutral default; choose a name of your own"
check_names "$package" "$version"
[[ -d $tree/packages/vendors/$vendor ]] || fail "$tree/packages/vendors/$vendor is not there; build the operator first"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
stage=$scratch/stage
mkdir -p "$stage/packages/vendors"
cp -R -- "$tree/packages/vendors/$vendor" "$stage/packages/vendors/"
[[ ! -f $tree/packages/custom.proto ]] || cp -- "$tree/packages/custom.proto" "$stage/packages/"
staged=$stage/packages/vendors/$vendor
[[ -f $staged/version.info ]] || fail \
    "$vendor has no version.info (custom_opp_compiler_version=...); the operator builder must write it"
write_info "$staged" package "$package"
write_info "$staged" package_version "$version"
write_info "$staged" socs "$(socs_of "$staged")"
pack "$stage" "$package" "$version" "$out"
