#!/usr/bin/env bash
# In a folder of its own, which no program has on its path but the process that compiles.
set -euo pipefail

target=$GRSTACK_ROOT/opt/grstack/triton
rm -rf "$target"
mkdir -p "$target"
cp -r "$GRSTACK_ARTEFACT/triton" "$GRSTACK_ARTEFACT"/triton-*.dist-info "$target"
"$GRSTACK_PYTHON" -m compileall -q "$target"
