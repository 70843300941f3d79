#!/usr/bin/env bash
# Makes a root file system from the distribution's own packages, where no container registry can be reached.
# usage: bootstrap.sh DISTRIBUTION/SUITE OUT.tar
# packages-DISTRIBUTION.txt beside it: what a smallest system lacks there.
# GRSTACK_APT_SOURCES: a .sources file with this machine's mirrors of SUITE; without it the distribution's default
# mirror is used. GRSTACK_CA: a CA bundle. Both serve the download only: the image gets the distribution's default
# sources, which apt ships as an example, and none of this machine's settings.
set -euo pipefail
distribution=${1%%/*} suite=${1#*/} out=$2
here=$(dirname "$(readlink -f "$0")")
lists=("$here/packages.txt")
if [[ -f $here/packages-$distribution.txt ]]; then lists+=("$here/packages-$distribution.txt"); fi
packages=$(cat "${lists[@]}" | paste -sd,)

options=()
if [[ -n ${GRSTACK_CA:-} ]]; then options+=(--aptopt="Acquire::https::CaInfo \"$GRSTACK_CA\""); fi

read -r -d '' default_sources <<'HOOK' || true
rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap
examples="$1"/usr/share/doc/apt/examples
if ls "$examples"/*.sources >/dev/null 2>&1; then cp "$examples"/*.sources "$1"/etc/apt/sources.list.d/; fi
if [ -f "$examples"/sources.list ]; then cp "$examples"/sources.list "$1"/etc/apt/; fi
HOOK

# shellcheck disable=SC2016  # mmdebstrap expands $1, the root of the new system
mmdebstrap --variant=minbase --include="$packages" "${options[@]}" \
    --customize-hook="grep -qx 'VERSION_CODENAME=$suite' \"\$1\"/etc/os-release || { echo 'the packages are not those of $suite' >&2; exit 1; }" \
    --customize-hook="$default_sources" \
    --customize-hook='rm -rf "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/apt' \
    "$suite" "$out" ${GRSTACK_APT_SOURCES:+"$GRSTACK_APT_SOURCES"}
