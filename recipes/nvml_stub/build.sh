#!/usr/bin/env bash
# fbgemm_gpu links NVML directly. Every function that its library leaves undefined answers NVML_ERROR_LIBRARY_NOT_FOUND
# here, which is the truth: the entry point of the image puts this folder in place where the driver's own is missing.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
site=$("$GRSTACK_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mapfile -t names < <(nm -D --undefined-only "$site"/fbgemm_gpu/*.so | sed -n 's/^ *U \(nvml[A-Za-z0-9_]*\)$/\1/p' | sort -u)
[[ ${#names[@]} -gt 0 ]] || { echo "nvml_stub: fbgemm_gpu asks for no nvml function; the recipe is not needed" >&2; exit 1; }
for name in "${names[@]}"; do
    if [[ $name == nvmlErrorString ]]; then
        echo 'const char* nvmlErrorString(int code) { (void)code; return "no NVIDIA driver"; }'
    else
        echo "int $name(void) { return 12; }"
    fi
done > "$scratch/stub.c"
mkdir -p "$GRSTACK_OUT"
g++ -x c -shared -fPIC -O1 -Wl,-soname,libnvidia-ml.so.1 "$scratch/stub.c" -o "$GRSTACK_OUT/libnvidia-ml.so.1"
