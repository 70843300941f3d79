#!/bin/sh
# A user without a name (--user 1234) has none to be asked for: getpass, and with it torch, takes these.
: "${USER:=grstack}" "${LOGNAME:=$USER}"
export USER LOGNAME
if [ $# -eq 0 ]; then exec python /opt/grstack/bin/about.py; fi
exec "$@"
