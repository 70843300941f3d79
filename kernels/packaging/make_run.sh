#!/bin/bash
# Packs one built vendor tree into a self-extracting installer. Equal input gives equal bytes.
#
#   make_run.sh --tree DIR --vendor NAME --package NAME --version X.Y.Z --out FILE.run
#
# DIR holds packages/vendors/<vendor> as the operator builder leaves it. SOURCE_DATE_EPOCH is the time of all entries.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "make_run.sh: $1" >&2
    exit 1
}

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
[[ $package =~ ^[A-Za-z0-9_.-]+$ ]] || fail "--package may hold letters, digits and _.- only, got '$package'"
[[ $version =~ ^[A-Za-z0-9_.+-]+$ ]] || fail "--version may hold letters, digits and _.+- only, got '$version'"
[[ -d $tree/packages/vendors/$vendor ]] || fail "$tree/packages/vendors/$vendor is not there; build the operator first"
command -v makeself > /dev/null || fail "makeself is not installed; apt-get install makeself"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
stage=$scratch/stage
mkdir -p "$stage/packages/vendors"
cp -R -- "$tree/packages/vendors/$vendor" "$stage/packages/vendors/"
[[ ! -f $tree/packages/custom.proto ]] || cp -- "$tree/packages/custom.proto" "$stage/packages/"

for file in install.sh upgrade.sh uninstall.sh vendors.sh compatible.sh help.info; do
    text=$(cat "$here/$file"; echo x)
    text=${text//@VENDOR@/$vendor}
    text=${text//@PACKAGE@/$package}
    text=${text//@VERSION@/$version}
    printf '%s' "${text%x}" > "$stage/$file"
done
info=$stage/packages/vendors/$vendor/version.info
[[ -f $info ]] || fail "$vendor has no version.info (custom_opp_compiler_version=...); the operator builder must write it"
[[ -z $(tail -c 1 "$info") ]] || echo >> "$info"
printf 'package=%s\npackage_version=%s\n' "$package" "$version" >> "$info"

# The builder's umask must not show in the bytes.
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f -exec chmod 644 {} +
chmod 755 "$stage"/*.sh

mkdir -p "$(dirname -- "$out")"
archive=$scratch/archive.run
tar_options="--owner=0 --group=0 --numeric-owner --no-recursion --mtime=@${SOURCE_DATE_EPOCH:-0}"
tar_options+=" --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"
# The working directory is the only path with spaces that makeself need not see.
(cd "$scratch" && TMPDIR=$scratch makeself --quiet --gzip --complevel 4 --nomd5 --nocrc --sha256 --nox11 \
    --tar-format posix --tar-extra "$tar_options" --help-header stage/help.info --header "$here/header.sh" \
    stage archive.run "$package version:$version" ./install.sh > makeself.log 2>&1) || {
    cat "$scratch/makeself.log" >&2
    fail "makeself failed"
}
mv -f -- "$archive" "$out.partial"
chmod 755 "$out.partial"
mv -f -- "$out.partial" "$out"
