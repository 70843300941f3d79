# shellcheck shell=bash
# Two vendors with one operator: the runtime takes the first that it finds and says nothing of the other.
# Uses VENDORS, payload, vendors, target and force of install.sh.
# shellcheck disable=SC2154
# An operator shows in a vendor's tree by its header, op_api/include/aclnn_<operator>.h.

# operators_of VENDOR_DIRECTORY: one a line
operators_of() {
    local header
    for header in "$1/op_api/include"/aclnn_*.h; do
        [[ -f $header ]] || continue
        header=${header##*/aclnn_}
        echo "${header%.h}"
    done
}

is_ours() {
    [[ " $VENDORS " == *" $1 "* ]]
}

check_conflicts() {
    local vendor other operator
    for vendor in $VENDORS; do
        while IFS= read -r operator; do
            for other in "$vendors"/*/; do
                other=${other%/}
                if is_ours "${other##*/}" || [[ ! -f $other/op_api/include/aclnn_$operator.h ]]; then continue; fi
                [[ $force == y ]] || fail \
                    "operator $operator is served by another vendor already: ${other##*/} in $vendors. Remove that one \
('$other/scripts/uninstall.sh'), or put this package before it with --force"
                warn "operator $operator: $vendor is put before ${other##*/}, which is no longer asked for it"
            done
        done < <(operators_of "$payload/$vendor")
    done
}

# What stands in ASCEND_CUSTOM_OPP_PATH is found before any load_priority.
warn_of_custom_path() {
    local vendor operator entry
    local -a entries=()
    IFS=: read -r -a entries <<< "${ASCEND_CUSTOM_OPP_PATH:-}"
    for entry in ${entries[@]+"${entries[@]}"}; do
        [[ -n $entry && ${entry%/} != "$target" ]] || continue
        for vendor in $VENDORS; do
            [[ ${entry%/} != "$vendors/$vendor" ]] || continue
            while IFS= read -r operator; do
                [[ ! -f $entry/op_api/include/aclnn_$operator.h ]] || warn \
                    "operator $operator is still taken from $entry: ASCEND_CUSTOM_OPP_PATH is searched first"
            done < <(operators_of "$payload/$vendor")
        done
    done
}
