#!/usr/bin/env bash
# Unpack the locked upstream wheel, apply patches/torchrec exactly, repack it reproducibly.
set -euo pipefail

"$GRSTACK_PYTHON" "$GRSTACK_SOURCE/recipes/torchrec/build_wheel.py" \
    --wheels "$GRSTACK_WHEELS" \
    --patches "$GRSTACK_SOURCE/patches/torchrec" \
    --out "$GRSTACK_OUT"
