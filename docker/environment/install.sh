#!/usr/bin/env bash
# Installs a part of the locked packages, without the tests that some bring. usage: install.sh PYTHON cuda|others
# cuda: the libraries of CUDA that the plain torch asks for; the +cpu wheel of torch comes with none.
set -euo pipefail

context=$(dirname "$(readlink -f "$0")")
venv=/opt/grstack/venv
cache=/opt/grstack/uv-cache
required=$(mktemp)
case $2 in
    cuda) options=() ;;
    others) options=(--invert-match) ;;
    *) echo "usage: install.sh PYTHON cuda|others" >&2 && exit 2 ;;
esac
grep "${options[@]}" '^nvidia-' "$context/requirements.txt" > "$required" || true
if [[ ! -d $venv ]]; then
    python3 -c "import sys; found = '%d.%d' % sys.version_info[:2]; found == '$1' or sys.exit('the base has Python ' + found + ', the lock is for $1')"
    python3 -m venv "$venv"
fi
if [[ -s $required ]]; then
    # unpacked once: on one file system, uv's cache lends its files
    UV_CACHE_DIR=$cache UV_LINK_MODE=hardlink "$context/uv" pip install --python "$venv/bin/python" \
        --no-index --find-links "$context/wheels" --no-deps --require-hashes --compile-bytecode -r "$required"
fi
rm -rf "$cache" "$required"
# pyre_extensions imports its tests, so it is not done everywhere.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for package in matplotlib networkx numpy pandas pyarrow scipy sklearn sympy; do
    if [[ -d $site/$package ]]; then find "$site/$package" -type d -name tests -prune -exec rm -rf {} +; fi
done
