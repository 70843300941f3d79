#!/bin/sh
# Installs the packages that a file names by apt. usage: apt.sh SOURCES CA_BUNDLE PACKAGES.txt
# SOURCES: the host's mirrors, taken where they are for this release; it and the CA bundle may be missing or empty.
# Proxies come by the environment. No list, cache or log is left.
set -eu
sources=$1 ca=$2 packages=$3
# shellcheck source=/dev/null
. /etc/os-release
work=$(mktemp -d)
chmod 755 "$work" # apt reads it as a user of its own
set -- -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/sources"
if [ -s "$ca" ]; then set -- "$@" -o "Acquire::https::CaInfo=$ca"; fi
if grep -qsE "^Suites: *$VERSION_CODENAME( |\$)" "$sources"; then
    cp "$sources" "$work/sources/host.sources"
    set -- "$@" -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/sources"
fi
apt-get "$@" update -qq
# shellcheck disable=SC2046  # a list of words
DEBIAN_FRONTEND=noninteractive apt-get "$@" install -y -qq --no-install-recommends $(cat "$packages")
rm -rf "$work" /var/log/apt
