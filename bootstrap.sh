#!/bin/sh
# Makes .venv with the toolchain's own packages, by hash. On Debian and Ubuntu as root, installs what Python lacks.
# Make looks for .venv/bin/inv, which is moved into place last: an interrupted bootstrap starts over. So does a moved
# checkout: the environment's commands name the place where it was made, which .venv/made-in notes.
set -eu
cd "$(dirname "$0")"

die() { printf '%s\n  next:  %s\n' "$1" "$2" >&2; exit 1; }

python=${GRSTACK_TOOLS_PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1 || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing python3-venv"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python3 python3-venv ca-certificates >/dev/null
    else
        install="sudo apt-get install -y python3 python3-venv"
        command -v apt-get >/dev/null 2>&1 || install="sudo dnf install -y python3 python3-pip"
        die "Python 3.10 or later with the venv module is needed" "$install"
    fi
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "$("$python" --version) is too old; 3.10 or later is needed" "GRSTACK_TOOLS_PYTHON=/path/to/python3 make"

echo "making .venv for the toolchain"
mark=.venv/.grstack-tools
if [ -e .venv ] || [ -L .venv ]; then
    if [ -e "$mark" ] && [ ! -L .venv ]; then
        rm -rf .venv
    else
        aside=.venv.$(date +%Y%m%d-%H%M%S)
        mv .venv "$aside"
        echo "what stood in .venv was not made here, or before it was marked: it is in $aside now"
    fi
fi
mkdir .venv
touch "$mark"
"$python" -m venv .venv
pip="-m pip install --quiet --disable-pip-version-check --require-hashes --no-deps"
lock=locks/tools-dev.txt
# uv does in seconds what takes pip most of a minute. It is given pip's settings, as everywhere (grstack/network.py).
first=.venv/first.txt
awk '/^[A-Za-z0-9]/ { wanted = /^(uv|pyyaml|platformdirs)==/ } wanted' "$lock" > "$first"
# shellcheck disable=SC2086  # words, not a path
if ! .venv/bin/python $pip -r "$first" ||
    ! .venv/bin/python -m grstack.network uv pip install --quiet --python .venv/bin/python --require-hashes \
        --no-deps -r "$lock"; then
    echo "uv could not install them; pip tries"
    # shellcheck disable=SC2086
    .venv/bin/python $pip -r "$lock" || {
        rm -rf .venv
        die "the toolchain's packages cannot be installed" "check the package index: pip config list"
    }
fi
[ -x .venv/bin/inv ] || { rm -rf .venv; die "the lock of the tools does not bring invoke" "git checkout locks/tools.txt"; }
(cd .venv && pwd -P) > .venv/made-in
touch .venv/bin/inv
