#!/bin/bash
# Removes vendor @VENDOR@: lies in <target>/vendors/@VENDOR@/scripts. Exit 0 and a last line SUCCESS, or 1.
set -euo pipefail

VENDOR="@VENDOR@"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=vendors.sh
source "$here/vendors.sh"

for option in "$@"; do
    case "$option" in
        --quiet) quiet=y ;;
        *) fail "unknown option '$option'; uninstall.sh knows --quiet only" ;;
    esac
done

installed=$(dirname -- "$here")
vendors=$(dirname -- "$installed")
[[ $(basename -- "$installed") == "$VENDOR" && $(basename -- "$vendors") == vendors ]] || fail \
    "$here is not the scripts directory of an installed $VENDOR; call <target>/vendors/$VENDOR/scripts/uninstall.sh"

[[ -w $vendors ]] || fail "cannot write into $vendors; run as its owner"
lock_vendors "$vendors"
# Out of load_priority first: nobody may look for a vendor that is half gone.
take_out "$vendors" "$VENDOR"
remove_tree "$installed" || fail "cannot remove $installed; run as its owner"
say "removed $installed"
echo SUCCESS
