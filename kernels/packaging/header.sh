# shellcheck shell=bash disable=SC2154  # makeself sets archname, SHAsum and filesizes
# The start of every .run file. makeself sources this file to write it: plain $ is makeself's, \$ the .run's own.
# Its stock header refuses options that it does not know; here they are the installer's, as users of CANN's
# packages expect. It holds no time and no path, so equal input gives equal bytes.
cat << EOF > "$archname"
#!/bin/sh
# $LABEL, packed by makeself $MS_VERSION
label="$LABEL"
script="$SCRIPT"
sha256="$SHAsum"
skip="$SKIP"
size="$filesizes"

fail() {
    echo "ERROR: \$1" >&2
    exit 1
}

payload() {
    tail -n "+\$((skip + 1))" "\$archive"
}

check() {
    command -v sha256sum > /dev/null || fail "sha256sum is needed to check the archive; install coreutils"
    actual_size=\$(payload | wc -c | tr -d ' ')
    test "\$actual_size" = "\$size" || fail "\$archive is incomplete: \$actual_size bytes of \$size; fetch it again"
    actual=\$(payload | sha256sum | cut -c1-64)
    test "\$actual" = "\$sha256" || fail "\$archive is damaged: SHA-256 is \$actual, expected \$sha256; fetch it again"
}

help() {
    cat << 'HELP'
$HELPHEADER
HELP
}

case "\$0" in
    /*) archive=\$0 ;;
    *) archive=\$PWD/\$0 ;;
esac
test -f "\$archive" || archive=\$(command -v -- "\$0")
test -f "\$archive" || fail "cannot find the archive \$0; call it by its path"

execute=y
keep=n
target=
# The header's options are taken out, all others reach the installer unchanged and in order.
count=\$#
while test "\$count" -gt 0; do
    option=\$1
    shift
    count=\$((count - 1))
    case "\$option" in
        -h | --help) help; exit 0 ;;
        --info) echo "Identification: \$label"; echo "SHA-256 of the content: \$sha256"; exit 0 ;;
        --list) payload | gzip -cd | tar tvf -; exit \$? ;;
        --check) check; echo "\$archive: SHA-256 is as expected"; exit 0 ;;
        --noexec) execute=n ;;
        --keep) keep=y ;;
        --target)
            test "\$count" -gt 0 || fail "--target needs a directory"
            target=\$1
            keep=y
            shift
            count=\$((count - 1))
            ;;
        *) set -- "\$@" "\$option" ;;
    esac
done

check
# Private while it is being unpacked; the installer sets the modes of what it installs.
umask 077
if test -n "\$target"; then
    mkdir -p -- "\$target" || fail "cannot create \$target"
    work=\$(cd -- "\$target" && pwd)
else
    work=\$(mktemp -d "\${TMPDIR:-/tmp}/mxrec_opp.XXXXXX") || fail "cannot create a directory in \${TMPDIR:-/tmp}; set TMPDIR"
fi
clean() {
    test "\$keep" = y || rm -rf -- "\$work"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

payload | gzip -cd | (cd -- "\$work" && tar xpf -) || fail "cannot unpack into \$work (is the disk full?)"
test "\$keep" = n || echo "unpacked into \$work"
test "\$execute" = n && exit 0
cd -- "\$work" || exit 1
"\$script" "\$@"
exit \$?
EOF
