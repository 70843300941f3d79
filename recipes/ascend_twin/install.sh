#!/usr/bin/env bash
# Unpacks the wheel's Python files: the environment may have no pip, and the home that they are about is the one that
# recipes/twin has installed as ASCEND_HOME. PIP_TARGET, if set, says where to.
set -euo pipefail

shopt -s nullglob
wheels=("$GRSTACK_ARTEFACT"/ascend_twin-*.whl)
if [[ ${#wheels[@]} -ne 1 ]]; then
    echo "ascend_twin: expected one ascend_twin wheel in $GRSTACK_ARTEFACT, found ${#wheels[@]}" >&2
    exit 1
fi
target=${PIP_TARGET:-$("$GRSTACK_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
mkdir -p "$target"
rm -rf "$target/ascend_twin" "$target"/ascend_twin-*.dist-info
"$GRSTACK_PYTHON" -m zipfile -e "${wheels[0]}" "$target"
rm -rf "$target/ascend_twin/home"
echo "installed the commands of ${wheels[0]##*/} in $target"
