#!/bin/bash
# Installs this package: ./install.sh [OPTIONS], see help.info. Contract: exit 0 and a last line SUCCESS, or 1.
set -euo pipefail

VENDORS="@VENDOR@"
PACKAGE="@PACKAGE@"
VERSION="@VERSION@"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=vendors.sh
source "$here/vendors.sh"
# shellcheck source=compatible.sh
source "$here/compatible.sh"
# shellcheck source=conflicts.sh
source "$here/conflicts.sh"

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
        echo "# source this file to use the operators of $(basename -- "$vendor_directory")"
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

# One file for all vendors of the directory, those that come later too: they are looked for when it is sourced.
write_common_set_env() {
    local new=$vendors/.set_env.bash.$$
    {
        printf '%s\n' "$SET_ENV_MARK"
        printf '_vendors=%q\n' "$vendors"
        cat << 'SET_ENV'
_named=$(sed -n 's/^load_priority=//p' "$_vendors/config.ini" 2> /dev/null | tr ',' ' ') || true
_added=
for _vendor in $_named "$_vendors"/*/; do
    case $_vendor in /*) _vendor=${_vendor%/} ;; *) _vendor=$_vendors/$_vendor ;; esac
    if [ ! -d "$_vendor/op_api/lib" ]; then continue; fi
    case ":$_added:${ASCEND_CUSTOM_OPP_PATH:-}:" in *":$_vendor:"*) continue ;; esac
    _added=${_added:+$_added:}$_vendor
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$_vendor/op_api/lib"
done
if [ -n "$_added" ]; then
    export ASCEND_CUSTOM_OPP_PATH="$_added${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}"
fi
unset _vendors _named _added _vendor
SET_ENV
    } > "$new" || fail "cannot write $new (is the disk full?)"
    if [[ $for_all == y ]]; then chmod 755 "$new"; else chmod 750 "$new"; fi
    mv -f -T -- "$new" "$vendors/set_env.bash" || fail "cannot replace $vendors/set_env.bash"
}

# Two packages with one vendor name would delete each other's operators: only a package replaces itself.
check_installed() {
    local vendor=$1 installed name version ours version_of_ours
    installed=$vendors/$vendor
    [[ -e $installed ]] || return 0
    ours=$(info_value "$payload/$vendor" package)
    version_of_ours=$(info_value "$payload/$vendor" package_version)
    name=$(info_value "$installed" package)
    version=$(info_value "$installed" package_version)
    if [[ $name != "$ours" ]]; then
        [[ $force == y ]] || fail \
            "$installed holds another package (${name:-unnamed}); uninstall it first, or replace it with --force"
        warn "replacing another package (${name:-unnamed}) in $installed"
    elif [[ $version == "$version_of_ours" ]]; then
        say "reinstalling $ours $version_of_ours"
    elif [[ $(printf '%s\n' "$version" "$version_of_ours" | sort -V | sed -n 1p) == "$version_of_ours" ]]; then
        say "downgrading $ours from $version to $version_of_ours"
    else
        say "upgrading $ours from ${version:-an unknown version} to $version_of_ours"
    fi
}

check_upgrade() {
    local vendor
    [[ $action == upgrade ]] || return 0
    for vendor in $VENDORS; do
        [[ ! -e $vendors/$vendor ]] || return 0
    done
    fail "$vendors/${VENDORS%% *} is not there; install the package first, without --upgrade"
}

staged=()
replaced=()
swapped=()
activated=n
# After a failure the old trees are back, or nothing is there.
settle() {
    local code=$? vendor
    trap - EXIT
    if [[ $activated == n ]]; then
        for vendor in ${swapped[@]+"${swapped[@]}"}; do remove_tree "$vendors/$vendor"; done
        for vendor in ${replaced[@]+"${replaced[@]}"}; do
            [[ -e $vendors/$vendor ]] || mv -T -- "$vendors/.$vendor.old.$$" "$vendors/$vendor"
        done
    fi
    for vendor in ${replaced[@]+"${replaced[@]}"}; do
        [[ ! -e $vendors/.$vendor.old.$$ ]] || retire "$vendors/.$vendor.old.$$" "$vendors/$vendor"
    done
    for vendor in ${staged[@]+"${staged[@]}"}; do remove_tree "$vendors/.$vendor.new.$$"; done
    [[ $code -eq 0 ]] || code=1
    exit "$code"
}

# What a killed installation has left; the lock is held, so none is at work.
clear_leftovers() {
    local vendor=$1 left
    for left in "$vendors/.$vendor.old."*; do
        [[ ${left##*.} =~ ^[0-9]+$ && -d $left && ! -L $left ]] || continue
        if [[ -e $vendors/$vendor ]]; then retire "$left" "$vendors/$vendor"; else mv -T -- "$left" "$vendors/$vendor"; fi
    done
    for left in "$vendors/.$vendor.new."*; do
        [[ ${left##*.} =~ ^[0-9]+$ && -d $left && ! -L $left ]] || continue
        remove_tree "$left"
    done
}

stage_vendor() {
    local vendor=$1 stage=$vendors/.$1.new.$$
    mkdir -- "$stage"
    staged+=("$vendor")
    cp -R -- "$payload/$vendor/." "$stage" || fail "cannot copy into $vendors (is the disk full?)"
    mkdir -p "$stage/scripts"
    cp -- "$here/uninstall.sh" "$here/vendors.sh" "$stage/scripts/"
    [[ $needs_set_env == n ]] || write_set_env "$vendors/$vendor" "$stage"
    set_modes "$stage"
}

swap_vendor() {
    local vendor=$1
    if [[ -e $vendors/$vendor ]]; then
        mv -T -- "$vendors/$vendor" "$vendors/.$vendor.old.$$"
        replaced+=("$vendor")
    fi
    mv -T -- "$vendors/.$vendor.new.$$" "$vendors/$vendor"
    swapped+=("$vendor")
}

# All vendors of the package or none.
install_vendors() {
    local vendor
    make_directory "$target" "$for_all"
    make_directory "$vendors" "$for_all"
    lock_vendors "$vendors"
    [[ -w $vendors ]] || fail \
        "cannot write into $vendors; run as its owner, or choose another place with --install-path=DIR"
    for vendor in $VENDORS; do clear_leftovers "$vendor"; done
    check_upgrade
    for vendor in $VENDORS; do check_installed "$vendor"; done
    check_conflicts

    trap settle EXIT
    trap 'exit 1' HUP INT TERM
    for vendor in $VENDORS; do stage_vendor "$vendor"; done
    for vendor in $VENDORS; do swap_vendor "$vendor"; done
    # shellcheck disable=SC2086  # names of vendors hold no space
    [[ -n $install_path ]] || put_first "$vendors" "$for_all" $VENDORS
    [[ $needs_set_env == n ]] || write_common_set_env
    activated=y
}

uninstall_vendors() {
    local vendor found=n
    for vendor in $VENDORS; do
        [[ -x $vendors/$vendor/scripts/uninstall.sh ]] || continue
        found=y
        if [[ $quiet == y ]]; then
            "$vendors/$vendor/scripts/uninstall.sh" --quiet > /dev/null
        else
            "$vendors/$vendor/scripts/uninstall.sh" | sed '$d'
        fi
    done
    [[ $found == y ]] || fail "$VENDORS is not installed in $vendors"
}

parse_options "$@"
target=$(choose_target)
target=${target%/}
payload=$here/packages/vendors
vendors=$target/vendors
# torch_npu searches <entry>/op_api/lib of ASCEND_CUSTOM_OPP_PATH, and config.ini below ASCEND_OPP_PATH only.
needs_set_env=n
opp_path=${ASCEND_OPP_PATH:-}
if [[ -n $install_path || $target != "${opp_path%/}" ]]; then needs_set_env=y; fi

if [[ $action == uninstall ]]; then
    uninstall_vendors
    echo SUCCESS
    exit 0
fi
if [[ $force == y ]]; then
    warn "--force: compatibility is not checked"
else
    for vendor in $VENDORS; do check_compatible "$payload/$vendor"; done
fi
if [[ $needs_set_env == y && (-e $vendors/set_env.bash || -L $vendors/set_env.bash) ]]; then
    is_own_set_env "$vendors/set_env.bash" || fail \
        "$vendors/set_env.bash is not of this installer, which writes a file of that name; move it away: mv $vendors/set_env.bash ELSEWHERE"
fi
install_vendors
warn_of_custom_path
for vendor in $VENDORS; do
    say "installed $(info_value "$payload/$vendor" package) $(info_value "$payload/$vendor" package_version) in $vendors/$vendor"
done
[[ $needs_set_env == n ]] || say "to use all that is installed there: source '$vendors/set_env.bash'"
echo SUCCESS
