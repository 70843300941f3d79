#!/bin/bash
# Replaces the installed vendor by this package, without questions; the options are those of install.sh.
# Vendor: @VENDOR@
set -euo pipefail
exec "$(dirname -- "${BASH_SOURCE[0]}")/install.sh" --upgrade "$@"
