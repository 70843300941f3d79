# shellcheck shell=bash
# Refuses a package whose libraries cannot be loaded here. With ASCEND_HOME_PATH they are opened; without it, the
# toolkit they need is absent, so only ELF machine and GLIBC version are compared.

readonly SKIP_HINT="install it, or skip the check with --force"

# check_compatible VENDOR_TREE
check_compatible() {
    local tree=$1 library found=n
    check_platform "$tree"
    local -a libraries=()
    while IFS= read -r -d '' library; do
        [[ $library != */libcust_opmaster*.so ]] || found=y
        libraries+=("$library")
    done < <(find "$tree" -type f \( -name 'libcust_opmaster*.so' -o -name 'libcust_opsproto*.so' \
        -o -name 'libcust_opapi.so' \) -print0 | LC_ALL=C sort -z)
    [[ $found == y ]] || fail "the package has no libcust_opmaster (tiling) library; it is broken, build it again"
    for library in "${libraries[@]}"; do
        if [[ -n ${ASCEND_HOME_PATH:-} ]]; then
            check_loads "$tree" "$library"
        else
            check_elf "$library"
        fi
    done
}

# The libraries of the one load with the other, and then take its device addresses for their own.
check_platform() {
    local home=${ASCEND_HOME_PATH:-} package=CANN toolkit=CANN
    [[ -f $home/version.info || -f $home/version.cfg || -f $home/compiler/version.info ]] || return 0
    [[ $(info_value "$1" custom_opp_compiler_version) != twin-* ]] || package="the twin"
    ! grep -qs '^platform=twin$' "$home/version.info" || toolkit="the twin"
    [[ $package == "$toolkit" ]] || fail \
        "$(basename -- "$1") was built for $package, but the toolkit in $home is $toolkit; get the other package"
}

# with_stubs HOME PATH: PATH, and behind it the toolkit's own stubs where no folder of PATH has the driver's library.
# The toolkit's libraries need libascend_hal.so; `docker build` has no driver, and CANN's own builds take the stubs there.
with_stubs() {
    local home=$1 path=$2 machine folder
    local -a folders=()
    IFS=: read -r -a folders <<< "$path"
    for folder in ${folders[@]+"${folders[@]}"}; do
        if [[ -n $folder && -e $folder/libascend_hal.so ]]; then
            echo "$path"
            return
        fi
    done
    machine=$(uname -m)
    for folder in "$home"/{runtime/lib64/stub,"$machine-linux/devlib"}{,"/linux/$machine"}; do
        [[ ! -d $folder ]] || path+=${path:+:}$folder
    done
    echo "$path"
}

check_loads() {
    local tree=$1 library=$2 path message
    command -v python3 > /dev/null || fail "python3 is needed to check $(basename -- "$library"); $SKIP_HINT"
    path=$(dirname -- "$library"):$tree/op_api/lib:$ASCEND_HOME_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    path=$(with_stubs "$ASCEND_HOME_PATH" "$path")
    # RTLD_NOW: a missing symbol must show here, not at the first call
    if ! message=$(LD_LIBRARY_PATH=$path python3 -c \
        'import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)' "$library" 2>&1); then
        fail "$(basename -- "$library") cannot be loaded with the toolkit in $ASCEND_HOME_PATH: ${message##*$'\n'}
Install the package built for this toolkit, or skip the check with --force."
    fi
}

check_elf() {
    local library=$1 theirs ours needed
    command -v readelf > /dev/null || fail "readelf (binutils) is needed to check $(basename -- "$library"); $SKIP_HINT"
    theirs=$(LC_ALL=C readelf -h -- "$library" 2> /dev/null | sed -n 's/^ *Machine: *//p') || true
    ours=$(LC_ALL=C readelf -h -- "$(command -v bash)" | sed -n 's/^ *Machine: *//p')
    [[ $theirs == "$ours" ]] || fail \
        "$(basename -- "$library") is for '${theirs:-no known machine}', this system is '$ours'; get the other package"
    needed=$(LC_ALL=C readelf -V -- "$library" | sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1)
    ours=$(getconf GNU_LIBC_VERSION)
    ours=${ours##* }
    [[ $(printf '%s\n' "${needed:-0}" "$ours" | sort -V | tail -n 1) == "$ours" ]] || fail \
        "$(basename -- "$library") needs GLIBC $needed, this system has $ours; build the package on this system"
}
