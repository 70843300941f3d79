#!/bin/sh
# Platform cann: the toolkit's own environment first, so that its paths win over the image's defaults.
# shellcheck source=/dev/null
if [ -f "$ASCEND_HOME_PATH/../set_env.sh" ]; then
    . "$ASCEND_HOME_PATH/../set_env.sh"
elif [ -f "$ASCEND_HOME_PATH/set_env.sh" ] && ! grep -qsx 'platform=twin' "$ASCEND_HOME_PATH/version.info"; then
    . "$ASCEND_HOME_PATH/set_env.sh" # CANN from 8.5.0 on; that of the twin is for bash, and its image needs none
fi
exec "$@"
