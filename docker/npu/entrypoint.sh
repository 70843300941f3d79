#!/usr/bin/env bash
# Platform cann: the toolkit's own environment first, so that its paths win over the image's defaults. Its scripts are
# written to be sourced by bash, and see the arguments of who does so: the command is none of theirs.
# shellcheck source=/dev/null
_command=("$@")
set --
if [[ -f $ASCEND_HOME_PATH/../set_env.sh ]]; then
    . "$ASCEND_HOME_PATH/../set_env.sh"
elif [[ -f $ASCEND_HOME_PATH/set_env.sh ]] && ! grep -qsx 'platform=twin' "$ASCEND_HOME_PATH/version.info"; then
    . "$ASCEND_HOME_PATH/set_env.sh" # CANN from 8.5.0 on; the twin's image needs none
fi
set -- "${_command[@]}"
# A user without a name (--user 1234) has none to be asked for: getpass, and with it torch, takes these.
: "${USER:=grstack}" "${LOGNAME:=$USER}"
export USER LOGNAME
if [[ $# -eq 0 ]]; then exec python /opt/grstack/bin/about.py; fi
exec "$@"
