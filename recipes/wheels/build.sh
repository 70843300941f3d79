#!/usr/bin/env bash
# Builds the wheel of the package in $GRSTACK_SOURCE/$GRSTACK_WHEEL by its own PEP 517 backend. CANN is not needed.
set -euo pipefail

export PYTHONPATH=$GRSTACK_SOURCE/$GRSTACK_WHEEL/build_backend PYTHONDONTWRITEBYTECODE=1
export TORCH_DEVICE_BACKEND_AUTOLOAD=0
"$GRSTACK_PYTHON" -c 'import sys, wheel_backend; print(wheel_backend.build_wheel(sys.argv[1]))' "$GRSTACK_OUT"
