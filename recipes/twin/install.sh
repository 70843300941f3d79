#!/usr/bin/env bash
# Installs the twin as the Ascend home. Operators that are already installed under opp/vendors stay.
set -euo pipefail

if [[ -e $ASCEND_HOME ]] && ! grep -qs '^platform=twin$' "$ASCEND_HOME/version.info"; then
    echo "twin: $ASCEND_HOME exists and is not the twin; remove it, or choose another place (GRSTACK_ROOT)" >&2
    exit 1
fi
mkdir -p "$ASCEND_HOME/opp/vendors"
chmod 755 "$ASCEND_HOME" "$ASCEND_HOME/opp" "$ASCEND_HOME/opp/vendors"
# First of all, so that an installation that is cut short can be repeated.
install -m 644 "$GRSTACK_ARTEFACT/version.info" "$ASCEND_HOME/version.info"

for part in bin lib64 include tools runtime compiler; do
    rm -rf -- "$ASCEND_HOME/.$part.new"
    cp -R --no-preserve=ownership "$GRSTACK_ARTEFACT/$part" "$ASCEND_HOME/.$part.new"
    rm -rf -- "${ASCEND_HOME:?}/$part"
    mv -- "$ASCEND_HOME/.$part.new" "$ASCEND_HOME/$part"
done
chmod -R u=rwX,go=rX "$ASCEND_HOME"/{bin,lib64,include,tools,runtime,compiler}
install -m 644 "$GRSTACK_ARTEFACT/opp/version.info" "$ASCEND_HOME/opp/version.info"
install -m 644 "$GRSTACK_ARTEFACT/set_env.sh" "$ASCEND_HOME/set_env.sh"
echo "installed the twin (emulated) in $ASCEND_HOME"
