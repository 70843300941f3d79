# shellcheck shell=bash
# Source this file: it makes the shell use the emulated Ascend home that the file lies in (bash or zsh).
# Nothing is added twice, and no empty entry is left behind.
_twin_home=$(cd -- "$(dirname -- "${BASH_SOURCE[0]:-$0}")" && pwd)
export ASCEND_HOME_PATH=$_twin_home
export ASCEND_TOOLKIT_HOME=$_twin_home
export ASCEND_OPP_PATH=$_twin_home/opp
case ":${LD_LIBRARY_PATH:-}:" in
    *":$_twin_home/lib64:"*) ;;
    *) export LD_LIBRARY_PATH=$_twin_home/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ;;
esac
case ":$PATH:" in
    *":$_twin_home/bin:"*) ;;
    *) export PATH=$_twin_home/bin:$_twin_home/tools/profiler/bin:$PATH ;;
esac
unset _twin_home
