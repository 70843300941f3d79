# shellcheck shell=bash
# What install.sh and uninstall.sh share: messages, the lock, and vendors/config.ini.
# Vendor names are compared as plain strings, never as patterns.

quiet=n

say() {
    [[ $quiet == y ]] || echo "$1"
}

warn() {
    echo "WARNING: $1" >&2
}

fail() {
    echo "ERROR: $1" >&2
    exit 1
}

# info_value VENDOR_DIRECTORY KEY: the value in version.info, empty if there is none
info_value() {
    local line
    [[ -f $1/version.info ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        if [[ ${line%%=*} == "$2" && $line == *=* ]]; then
            echo "${line#*=}"
            return 0
        fi
    done < "$1/version.info"
}

# make_directory PATH FOR_ALL: missing parents too; modes are set on what is created only
make_directory() {
    local path=$1 for_all=$2 mode=750
    [[ ! -d $path ]] || return 0
    [[ $for_all == n ]] || mode=755
    make_directory "$(dirname -- "$path")" "$for_all"
    mkdir -m "$mode" -- "$path" 2> /dev/null || [[ -d $path ]] || fail "cannot create $path"
}

# Two installations at once would lose one vendor of load_priority. The directory itself is locked: no file is left.
lock_vendors() {
    command -v flock > /dev/null || return 0
    exec 9< "$1"
    flock 9
}

remove_tree() {
    [[ -e $1 ]] || return 0
    chmod -R u+w -- "$1" && rm -rf -- "$1"
}

# The first line of <target>/vendors/set_env.bash, by which it is known as the installer's.
SET_ENV_MARK="# source this file to use all operators that are installed here, beside the toolkit's own"

is_own_set_env() {
    local first=
    [[ ! -f $1 || -L $1 ]] || IFS= read -r first < "$1" || true
    [[ $first == "$SET_ENV_MARK" ]]
}

# What the installer adds to a package's tree, beside the files of manifest.sha256.
ADDED="manifest.sha256 version.info scripts/uninstall.sh scripts/vendors.sh bin/set_env.bash"

# remove_own TREE: removes what a package has put there; files of others stay, and the tree if there are any
remove_own() {
    local tree=$1 line file
    find "$tree" -type d -exec chmod u+w {} +
    while IFS= read -r line || [[ -n $line ]]; do
        file=${line:66}  # 64 digits and two spaces
        [[ -z $file || $file == /* || /$file/ == */../* ]] || rm -f -- "$tree/$file"
    done < "$tree/manifest.sha256"
    # Links are in no manifest: those into the tree dangle by now.
    find "$tree" -type l ! -lname '/*' ! -exec test -e {} \; -delete
    for file in $ADDED; do rm -f -- "$tree/$file"; done
    find "$tree" -depth -type d -empty -delete
}

# retire OLD NEW: removes a replaced tree; files of others in it go on in the new one
retire() {
    local old=$1 new=$2
    if [[ -f $old/manifest.sha256 ]]; then
        remove_own "$old"
        [[ -d $old ]] || return 0
        warn "$new keeps files that are not of the package"
        cp -R -P -n -- "$old/." "$new" || return 0  # then they stay in $old
    fi
    remove_tree "$old"
}

# read_priority VENDORS: the vendors of load_priority, one a line
read_priority() {
    local line name
    local -a names=()
    [[ -f $1/config.ini ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        [[ $line == load_priority=* ]] || continue
        IFS=, read -r -a names <<< "${line#load_priority=}"
        for name in ${names[@]+"${names[@]}"}; do
            name=${name//[[:space:]]/}
            [[ -z $name ]] || echo "$name"
        done
    done < "$1/config.ini"
}

# write_priority VENDORS MODE NAME...: replaces load_priority, keeps every other line of config.ini
write_priority() {
    local vendors=$1 mode=$2 line new
    shift 2
    new=$vendors/.config.ini.$$
    {
        local IFS=,
        [[ $# -eq 0 ]] || echo "load_priority=$*"
        if [[ -f $vendors/config.ini ]]; then
            while IFS= read -r line || [[ -n $line ]]; do
                [[ $line == load_priority=* ]] || echo "$line"
            done < "$vendors/config.ini"
        fi
    } > "$new" || fail "cannot write $new (is the disk full?)"
    chmod "$mode" "$new"
    mv -f -T -- "$new" "$vendors/config.ini" || {
        rm -f -- "$new"
        fail "cannot replace $vendors/config.ini"
    }
}

# put_first VENDORS FOR_ALL NAME...
put_first() {
    local vendors=$1 for_all=$2 mode=750 name
    shift 2
    local -a order=("$@")
    while IFS= read -r name; do
        [[ " $* " == *" $name "* ]] || order+=("$name")
    done < <(read_priority "$vendors")
    if [[ $for_all == y ]]; then
        mode=755
    elif [[ -f $vendors/config.ini ]]; then
        mode=$(stat -c %a "$vendors/config.ini")  # other vendors may be there for all users
    fi
    write_priority "$vendors" "$mode" "${order[@]}"
}

take_out() {
    local vendors=$1 vendor=$2 name
    local -a order=()
    [[ -f $vendors/config.ini ]] || return 0
    while IFS= read -r name; do
        [[ $name == "$vendor" ]] || order+=("$name")
    done < <(read_priority "$vendors")
    if [[ ${#order[@]} -eq 0 ]] && ! grep -Eqv '^(load_priority=|[[:space:]]*$)' "$vendors/config.ini"; then
        rm -f -- "$vendors/config.ini"
    else
        write_priority "$vendors" "$(stat -c %a "$vendors/config.ini")" ${order[@]+"${order[@]}"}
    fi
}
