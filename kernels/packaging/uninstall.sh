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
[[ -f $installed/manifest.sha256 ]] || fail \
    "$installed has no manifest.sha256, so what of it is this package's is not known; look into it, then rm -r $installed"
# Out of load_priority first: nobody may look for a vendor that is half gone.
take_out "$vendors" "$vendor"
remove_own "$installed" || fail "cannot remove $installed; run as its owner"
if [[ -e $installed ]]; then
    warn "$installed keeps files that are not of the package"
    say "removed the package from $installed"
else
    say "removed $installed"
fi
if ! compgen -G "$vendors/*/" > /dev/null && is_own_set_env "$vendors/set_env.bash"; then
    rm -f -- "$vendors/set_env.bash"
fi
echo SUCCESS
