#!/bin/sh
# A user without a name (--user 1234) has none to be asked for: getpass, and with it torch, takes these.
: "${USER:=grstack}" "${LOGNAME:=$USER}"
export USER LOGNAME
# Clusters of Google put the driver here, and leave it to the image to look.
mounted=/usr/local/nvidia
if [ -d "$mounted/lib64" ]; then
    export LD_LIBRARY_PATH="$mounted/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PATH="$PATH:$mounted/bin"
fi
# fbgemm_gpu does not load without the driver's library; where no driver is, a stand-in says so to whoever asks it.
if ! { [ -e "$mounted/lib64/libnvidia-ml.so.1" ] || ldconfig -p 2> /dev/null | grep -q 'libnvidia-ml\.so\.1 '; }; then
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/opt/grstack/no-driver"
fi
if [ $# -eq 0 ]; then exec python /opt/grstack/bin/about.py; fi
exec "$@"
