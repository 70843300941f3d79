#!/bin/sh
# Installs the packages that a file names by dnf. usage: dnf.sh CA_BUNDLE PACKAGES.txt
# The CA bundle may be missing or empty. Proxies come by the environment. No cache or log is left.
set -eu
ca=$1 packages=$2
set -- --assumeyes --quiet --setopt=install_weak_deps=False
if [ -s "$ca" ]; then set -- "$@" "--setopt=*.sslcacert=$ca"; fi
# shellcheck disable=SC2046  # a list of words
dnf "$@" install $(cat "$packages")
rm -rf /var/cache/dnf /var/log/dnf*
