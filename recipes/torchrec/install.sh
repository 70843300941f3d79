#!/usr/bin/env bash
# --no-deps: the locked wheels are in already, and an index must not be asked.
set -euo pipefail

wheel=("$GRSTACK_ARTEFACT"/torchrec-*+npu-py*-none-any.whl)
"$GRSTACK_PYTHON" -m pip install --no-index --no-deps --force-reinstall --no-warn-script-location "${wheel[@]}"
