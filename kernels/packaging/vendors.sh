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
        echo "load_priority=$*"
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
    if [[ ${#order[@]} -eq 0 ]]; then
        rm -f -- "$vendors/config.ini"
    else
        write_priority "$vendors" "$(stat -c %a "$vendors/config.ini")" "${order[@]}"
    fi
}
