#!/usr/bin/env bash
# Makes a root file system from the distribution's own packages, where no container registry can be reached.
# usage: bootstrap.sh SUITE OUT.tar
set -euo pipefail
suite=$1 out=$2
here=$(dirname "$(readlink -f "$0")")
packages=$(paste -sd, "$here/packages.txt")

# The host's own mirror is used for the download. The image gets the distribution's default sources instead, which
# apt ships as an example, so that no host setting lands in a layer.
sources=()
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
    if [[ -s $file ]]; then sources=("$file"); break; fi
done
[[ ${#sources[@]} -gt 0 ]] || { echo "no package sources found under /etc/apt" >&2; exit 1; }

mmdebstrap --variant=minbase --include="$packages" \
    --customize-hook="rm -rf \"\$1\"/etc/apt/sources.list \"\$1\"/etc/apt/sources.list.d/*; cp \"\$1\"/usr/share/doc/apt/examples/*.sources \"\$1\"/etc/apt/sources.list.d/ 2>/dev/null || cp \"\$1\"/usr/share/doc/apt/examples/sources.list \"\$1\"/etc/apt/sources.list 2>/dev/null || true" \
    --customize-hook="rm -f \"\$1\"/etc/resolv.conf \"\$1\"/etc/hostname" \
    "$suite" "$out" "${sources[@]}"
