#!/bin/sh
# Platform cann: the toolkit's own environment first, so that its paths win over the image's defaults.
# shellcheck source=/dev/null
if [ -f "$ASCEND_HOME_PATH/set_env.sh" ]; then
    . "$ASCEND_HOME_PATH/set_env.sh" # from 8.5.0 on
elif [ -f "$ASCEND_HOME_PATH/../set_env.sh" ]; then
    . "$ASCEND_HOME_PATH/../set_env.sh"
fi
exec "$@"
