#!/usr/bin/env bash
# Unpacks the wheel: the environment may have no pip, and nothing is to be resolved. PIP_TARGET, if set, says where to.
set -euo pipefail

shopt -s nullglob
wheels=("$GRSTACK_ARTEFACT"/*.whl)
if [[ ${#wheels[@]} -ne 1 ]]; then
    echo "expected one wheel in $GRSTACK_ARTEFACT, found ${#wheels[@]}" >&2
    exit 1
fi
file=${wheels[0]##*/}
package=${file%%-*}
target=${PIP_TARGET:-$("$GRSTACK_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
mkdir -p "$target"
rm -rf "${target:?}/$package" "$target/$package"-*.dist-info
"$GRSTACK_PYTHON" -m zipfile -e "${wheels[0]}" "$target"
echo "installed $file in $target"
