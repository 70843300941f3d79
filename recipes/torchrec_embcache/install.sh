#!/usr/bin/env bash
# Unpacks the wheel: the environment may have no pip, and nothing is to be resolved. PIP_TARGET, if set, says where to.
set -euo pipefail

shopt -s nullglob
wheels=("$GRSTACK_ARTEFACT"/torchrec_embcache-*.whl)
if [[ ${#wheels[@]} -ne 1 ]]; then
    echo "torchrec_embcache: expected one torchrec_embcache wheel in $GRSTACK_ARTEFACT, found ${#wheels[@]}" >&2
    exit 1
fi
target=${PIP_TARGET:-$("$GRSTACK_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
mkdir -p "$target"
rm -rf "$target/torchrec_embcache" "$target"/torchrec_embcache-*.dist-info
"$GRSTACK_PYTHON" -m zipfile -e "${wheels[0]}" "$target"
echo "installed ${wheels[0]##*/} in $target"
