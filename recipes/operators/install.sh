#!/usr/bin/env bash
# Installs the .run packages below $ASCEND_HOME/opp/vendors, readable by every user: the one who builds an image is
# seldom the one who runs it.
set -euo pipefail

# The target is this home's opp directory and no other that the environment may name. GRSTACK_TOOLKIT: the toolkit that
# the libraries are opened with, where it stands elsewhere and is not ours.
unset ASCEND_CUSTOM_OPP_PATH
export ASCEND_HOME_PATH=${GRSTACK_TOOLKIT:-$ASCEND_HOME} ASCEND_OPP_PATH=$ASCEND_HOME/opp
PATH=$(dirname -- "$GRSTACK_PYTHON"):$PATH # the installer opens the libraries with python3

shopt -s nullglob
packages=("$GRSTACK_ARTEFACT"/mxrec_opp_*.run)
if [[ ${#packages[@]} -eq 0 ]]; then
    echo "operators: no mxrec_opp_*.run in $GRSTACK_ARTEFACT" >&2
    exit 1
fi
for package in "${packages[@]}"; do
    sh "$package" --install-for-all --quiet > /dev/null
    echo "installed ${package##*/} in $ASCEND_OPP_PATH/vendors"
done
