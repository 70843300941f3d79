#!/bin/sh
# Installs the component mounted at /component into this image. usage: install-component NAME
set -eu
export GRSTACK_ROOT="" GRSTACK_PYTHON=/opt/grstack/venv/bin/python GRSTACK_ARTEFACT=/component/artefact
echo "install $1"
exec bash /component/install.sh
