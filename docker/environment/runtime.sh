#!/usr/bin/env bash
# Takes out of a base what only builds need. apt is asked what nothing else needs any more; no network is used.
# usage: runtime.sh [PACKAGE ...]: these stay
set -euo pipefail

export DEBIAN_FRONTEND=noninteractive
tools=()
for tool in python3-dev g++ cmake ninja-build make makeself patch binutils; do
    [[ " $* " == *" $tool "* ]] || tools+=("$tool")
done
apt-mark manual "$@" python3 python3-venv ca-certificates libgomp1 libstdc++6 procps >/dev/null
apt-get purge -y -qq --auto-remove -o APT::AutoRemove::RecommendsImportant=false "${tools[@]}" >/dev/null
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
python3 -c 'import ssl, sqlite3, ctypes, lzma'
