#!/bin/bash
# Removes the vendor in whose tree it lies, <target>/vendors/<vendor>/scripts. Exit 0 and a last line SUCCESS, or 1.
# Package: @PACKAGE@; vendors: @VENDOR@
set -euo pipefail

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
vendor=$(basename -- "$installed")
[[ $(basename -- "$here") == scripts && $(basename -- "$vendors") == vendors && -f $installed/version.info ]] || fail \
    "$here is not the scripts directory of an installed vendor; call <target>/vendors/<vendor>/scripts/uninstall.sh"

[[ -w $vendors ]] || fail "cannot write into $vendors; run as its owner"
lock_vendors "$vendors"
# Out of load_priority first: nobody may look for a vendor that is half gone.
take_out "$vendors" "$vendor"
remove_tree "$installed" || fail "cannot remove $installed; run as its owner"
compgen -G "$vendors/*/" > /dev/null || rm -f -- "$vendors/set_env.bash"
say "removed $installed"
echo SUCCESS
