# shellcheck shell=bash
# What make_run.sh and make_bundle.sh share: a staged folder becomes a .run file. Equal input gives equal bytes.
# Uses their scratch folder.
# shellcheck disable=SC2154

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "$(basename -- "$0"): $1" >&2
    exit 1
}

# check_names PACKAGE VERSION
check_names() {
    [[ $1 =~ ^[A-Za-z0-9_.-]+$ ]] || fail "--package may hold letters, digits and _.- only, got '$1'"
    [[ $2 =~ ^[A-Za-z0-9_.+-]+$ ]] || fail "--version may hold letters, digits and _.+- only, got '$2'"
    command -v makeself > /dev/null || fail "makeself is not installed; apt-get install makeself"
}

# socs_of TREE: the SoCs that a vendor's tree is for, separated by commas
socs_of() {
    local folder names=
    for folder in "$1/op_impl/ai_core/tbe/config"/*/; do
        [[ -d $folder ]] || continue
        folder=${folder%/}
        names+=${names:+,}${folder##*/}
    done
    echo "$names"
}

# write_info TREE KEY VALUE: replaces the line of KEY in version.info
write_info() {
    local info=$1/version.info line
    {
        while IFS= read -r line || [[ -n $line ]]; do
            [[ $line == "$2="* ]] || echo "$line"
        done < "$info"
        [[ -z $3 ]] || echo "$2=$3"
    } > "$info.new"
    mv -f -- "$info.new" "$info"
}

# write_manifest TREE: the hashes of all files, which `inv opp verify` and `sha256sum -c` read
write_manifest() {
    (
        cd -- "$1" || exit
        rm -f manifest.sha256
        find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum -- > "$scratch/manifest.sha256"
        mv -- "$scratch/manifest.sha256" manifest.sha256
    )
}

# pack STAGE PACKAGE VERSION OUT: STAGE holds packages/vendors/<vendor>, complete
pack() {
    local stage=$1 package=$2 version=$3 out=$4 file text tree tar_options vendors=
    local -a form=()
    for tree in "$stage/packages/vendors"/*/; do
        tree=${tree%/}
        write_manifest "$tree"
        vendors+=${vendors:+ }${tree##*/}
    done
    for file in install.sh upgrade.sh uninstall.sh vendors.sh compatible.sh conflicts.sh help.info; do
        text=$(cat "$here/$file"; echo x)
        text=${text//@VENDOR@/$vendors}
        text=${text//@PACKAGE@/$package}
        text=${text//@VERSION@/$version}
        printf '%s' "${text%x}" > "$stage/$file"
    done

    # The builder's umask must not show in the bytes.
    find "$stage" -type d -exec chmod 755 {} +
    find "$stage" -type f -exec chmod 644 {} +
    chmod 755 "$stage"/*.sh

    mkdir -p "$(dirname -- "$out")"
    tar_options="--owner=0 --group=0 --numeric-owner --no-recursion --mtime=@${SOURCE_DATE_EPOCH:-0}"
    tar_options+=" --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"
    # Releases before 2.4.5 (openEuler's 2.4.2) leave the format to tar; later ones name one, and tar takes no second.
    text=$(makeself --help 2>&1) || true # its exit code is not 0
    if [[ $text == *--tar-format* ]]; then
        form=(--tar-format posix)
    else
        tar_options="--format=posix $tar_options"
    fi
    # makeself has no option for gzip's -n, without which the time of packing stands in the bytes.
    mkdir -p "$scratch/bin"
    printf '#!/bin/sh\nexec %q -n "$@"\n' "$(command -v gzip)" > "$scratch/bin/gzip"
    chmod 755 "$scratch/bin/gzip"
    # The working directory is the only path with spaces that makeself need not see.
    (cd "$scratch" && PATH=$scratch/bin:$PATH TMPDIR=$scratch makeself --quiet --gzip --complevel 4 --nomd5 --nocrc --sha256 --nox11 \
        ${form[@]+"${form[@]}"} --tar-extra "$tar_options" --help-header "$(basename -- "$stage")/help.info" \
        --header "$here/header.sh" "$(basename -- "$stage")" archive.run "$package version:$version" ./install.sh \
        > makeself.log 2>&1) || {
        cat "$scratch/makeself.log" >&2
        fail "makeself failed"
    }
    mv -f -- "$scratch/archive.run" "$out.partial"
    chmod 755 "$out.partial"
    mv -f -- "$out.partial" "$out"
}
