#!/bin/bash
# Installs this package: ./install.sh [OPTIONS], see help.info. Contract: exit 0 and a last line SUCCESS, or 1.
set -euo pipefail

VENDOR="@VENDOR@"
PACKAGE="@PACKAGE@"
VERSION="@VERSION@"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=vendors.sh
source "$here/vendors.sh"
# shellcheck source=compatible.sh
source "$here/compatible.sh"

install_path=
for_all=n
force=n
action=install

parse_options() {
    local option
    for option in "$@"; do
        case "$option" in
            --install-path=*)
                install_path=${option#--install-path=}
                [[ $install_path == /* ]] || fail "--install-path must be an absolute path, got '$install_path'"
                ;;
            --install-for-all) for_all=y ;;
            --force) force=y ;;
            --quiet) quiet=y ;;
            --upgrade) action=upgrade ;;
            --uninstall) action=uninstall ;;
            --help) cat "$here/help.info"; exit 0 ;;
            --version) echo "$PACKAGE $VERSION"; exit 0 ;;
            *) fail "unknown option '$option'; --help lists the options" ;;
        esac
    done
}

# Prints the directory that holds vendors/. An empty entry (a trailing colon) of ASCEND_CUSTOM_OPP_PATH is no path.
choose_target() {
    local entry target=
    if [[ -n $install_path ]]; then
        echo "$install_path"
        return
    fi
    local -a entries=()
    IFS=: read -r -a entries <<< "${ASCEND_CUSTOM_OPP_PATH:-}"
    for entry in ${entries[@]+"${entries[@]}"}; do
        [[ -n $entry ]] || continue
        # set_env.bash of an installed vendor puts <target>/vendors/<vendor> here: the target is two levels up.
        if [[ $(basename -- "$(dirname -- "$entry")") == vendors ]]; then
            entry=$(dirname -- "$(dirname -- "$entry")")
        fi
        [[ -z $target || $target == "$entry" ]] || fail \
            "ASCEND_CUSTOM_OPP_PATH names several targets ('$target', '$entry'); choose one with --install-path=DIR"
        target=$entry
    done
    target=${target:-${ASCEND_OPP_PATH:-}}
    [[ -n $target ]] || fail \
        "no target: give --install-path=DIR, or set ASCEND_OPP_PATH to the opp directory (source CANN's set_env.sh)"
    [[ $target == /* ]] || fail "the target must be an absolute path, got '$target'"
    echo "$target"
}

set_modes() {
    local tree=$1 directory=750 file=750 script=550
    if [[ $for_all == y ]]; then
        directory=755 file=755 script=555
    fi
    find "$tree" -type d -exec chmod "$directory" {} +
    find "$tree" -type f -exec chmod "$file" {} +
    if [[ -d $tree/op_impl/cpu/aicpu_kernel/impl ]]; then
        find "$tree/op_impl/cpu/aicpu_kernel/impl" -type f -exec chmod 444 {} +
    fi
    chmod "$script" "$tree/scripts"/*.sh
    chmod "$script" "$tree/scripts"
}

write_set_env() {
    local vendor_directory=$1 tree=$2
    mkdir -p "$tree/bin"
    {
        echo "# source this file to use the operators of $VENDOR"
        printf '_vendor_directory=%q\n' "$vendor_directory"
        cat << 'SET_ENV'
case ":${ASCEND_CUSTOM_OPP_PATH:-}:" in
    *":$_vendor_directory:"*) ;;
    *) export ASCEND_CUSTOM_OPP_PATH="$_vendor_directory${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}" ;;
esac
case ":${LD_LIBRARY_PATH:-}:" in
    *":$_vendor_directory/op_api/lib:"*) ;;
    *) export LD_LIBRARY_PATH="$_vendor_directory/op_api/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
esac
unset _vendor_directory
SET_ENV
    } > "$tree/bin/set_env.bash"
}

# Two packages with one vendor name would delete each other's operators: only this package replaces itself.
check_installed() {
    local installed=$1
    if [[ ! -e $installed ]]; then
        [[ $action != upgrade ]] || fail "$installed is not there; install the package first, without --upgrade"
        return 0
    fi
    local name version
    name=$(info_value "$installed" package)
    version=$(info_value "$installed" package_version)
    if [[ $name != "$PACKAGE" ]]; then
        [[ $force == y ]] || fail \
            "$installed holds another package (${name:-unnamed}); uninstall it first, or replace it with --force"
        warn "replacing another package (${name:-unnamed}) in $installed"
    elif [[ $version == "$VERSION" ]]; then
        say "reinstalling $PACKAGE $VERSION"
    elif [[ $(printf '%s\n' "$version" "$VERSION" | sort -V | sed -n 1p) == "$VERSION" ]]; then
        say "downgrading $PACKAGE from $version to $VERSION"
    else
        say "upgrading $PACKAGE from ${version:-an unknown version} to $VERSION"
    fi
}

staged=
replaced=
swapped=n
activated=n
# After a failure the old tree is back, or nothing is there.
settle() {
    local code=$?
    trap - EXIT
    if [[ $activated == n ]]; then
        [[ $swapped == n ]] || remove_tree "$installed"
        [[ -z $replaced || ! -d $replaced || -e $installed ]] || mv -T -- "$replaced" "$installed"
    fi
    [[ -z $replaced ]] || remove_tree "$replaced"
    [[ -z $staged ]] || remove_tree "$staged"
    [[ $code -eq 0 ]] || code=1
    exit "$code"
}

# What a killed installation has left; the lock is held, so none is at work.
clear_leftovers() {
    local vendors=$1 left
    for left in "$vendors/.$VENDOR.old."*; do
        [[ -d $left ]] || continue
        if [[ -e $installed ]]; then remove_tree "$left"; else mv -T -- "$left" "$installed"; fi
    done
    for left in "$vendors/.$VENDOR.new."*; do remove_tree "$left"; done
}

install_vendor() {
    local vendors=$1
    make_directory "$target" "$for_all"
    make_directory "$vendors" "$for_all"
    lock_vendors "$vendors"
    [[ -w $vendors ]] || fail \
        "cannot write into $vendors; run as its owner, or choose another place with --install-path=DIR"
    clear_leftovers "$vendors"
    check_installed "$installed"

    trap settle EXIT
    trap 'exit 1' HUP INT TERM
    staged=$vendors/.$VENDOR.new.$$
    mkdir -- "$staged"
    cp -R -- "$here/packages/vendors/$VENDOR/." "$staged" || fail "cannot copy into $vendors (is the disk full?)"
    mkdir -p "$staged/scripts"
    cp -- "$here/uninstall.sh" "$here/vendors.sh" "$staged/scripts/"
    [[ $needs_set_env == n ]] || write_set_env "$installed" "$staged"
    set_modes "$staged"

    if [[ -e $installed ]]; then
        replaced=$vendors/.$VENDOR.old.$$
        mv -T -- "$installed" "$replaced"
    fi
    mv -T -- "$staged" "$installed"
    swapped=y
    [[ -n $install_path ]] || put_first "$vendors" "$VENDOR" "$for_all"
    activated=y
}

parse_options "$@"
target=$(choose_target)
target=${target%/}
installed=$target/vendors/$VENDOR
# torch_npu searches <entry>/op_api/lib of ASCEND_CUSTOM_OPP_PATH, and config.ini below ASCEND_OPP_PATH only.
needs_set_env=n
opp_path=${ASCEND_OPP_PATH:-}
if [[ -n $install_path || $target != "${opp_path%/}" ]]; then needs_set_env=y; fi

if [[ $action == uninstall ]]; then
    [[ -x $installed/scripts/uninstall.sh ]] || fail "$VENDOR is not installed in $target/vendors"
    exec "$installed/scripts/uninstall.sh"
fi
if [[ $force == y ]]; then
    warn "--force: compatibility is not checked"
else
    check_compatible "$here/packages/vendors/$VENDOR"
fi
install_vendor "$target/vendors"
say "installed $PACKAGE $VERSION in $installed"
[[ $needs_set_env == n ]] || say "to use it: source '$installed/bin/set_env.bash'"
echo SUCCESS
