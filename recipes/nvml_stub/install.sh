#!/usr/bin/env bash
# Beside the loader's own folders: docker/cuda/entrypoint.sh says when it is used.
set -euo pipefail

install -D -m 644 "$GRSTACK_ARTEFACT/libnvidia-ml.so.1" "$GRSTACK_ROOT/opt/grstack/no-driver/libnvidia-ml.so.1"
