#!/usr/bin/env bash
# Packs the home that recipes/twin has built as the wheel ascend-twin.
set -euo pipefail

export TWIN_HOME=$GRSTACK_DEPS/twin
export PYTHONPATH=$GRSTACK_SOURCE/twin/python/build_backend PYTHONDONTWRITEBYTECODE=1
"$GRSTACK_PYTHON" -c 'import sys, wheel_backend; print(wheel_backend.build_wheel(sys.argv[1]))' "$GRSTACK_OUT"
