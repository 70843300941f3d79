#!/bin/sh
# Installs one component, or each of its parts (operators/<op>), from /components into this image.
set -eu
export GRSTACK_ROOT="" GRSTACK_PYTHON=/opt/grstack/venv/bin/python TORCH_DEVICE_BACKEND_AUTOLOAD=0
export ASCEND_HOME="$ASCEND_HOME_PATH"
for script in /components/"$1"/install.sh /components/"$1"/*/install.sh; do
    [ -f "$script" ] || continue
    echo "install ${script%/install.sh}"
    GRSTACK_ARTEFACT="$(dirname "$script")/artefact" bash "$script"
done
