#!/usr/bin/env bash
# Builds the whole Ascend home of platform twin: every runtime library, the headers and the operator builder.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

cmake -S "$GRSTACK_SOURCE/twin/runtime" -B "$scratch/build" -G Ninja "-DPYTHON=$GRSTACK_PYTHON"
cmake --build "$scratch/build" --parallel "${GRSTACK_JOBS:-2}"

mkdir -p "$GRSTACK_OUT/lib64" "$GRSTACK_OUT/tools" "$GRSTACK_OUT/bin"
cp "$scratch/build/lib64/"*.so "$GRSTACK_OUT/lib64/"
cp "$scratch/build/bin/npu-smi" "$GRSTACK_OUT/bin/"
strip --strip-unneeded "$GRSTACK_OUT/lib64/"*.so "$GRSTACK_OUT/bin/npu-smi"
cp -R "$GRSTACK_SOURCE/twin/include" "$GRSTACK_OUT/include"
# The generated operator libraries are compiled against the layout of the runtime's handles.
cp -R "$GRSTACK_SOURCE/twin/runtime/include/twin" "$GRSTACK_OUT/include/twin"
cp -R "$GRSTACK_SOURCE/twin/opbuild" "$GRSTACK_OUT/tools/opbuild"
cp -R "$GRSTACK_SOURCE/twin/cores" "$GRSTACK_OUT/tools/cores"
cp -R "$GRSTACK_SOURCE/twin/tools/profiler" "$GRSTACK_OUT/tools/profiler"
# The cores of every operator that is built in this home. The ACL headers are those of the wheel, which is not imported.
torch_npu=$("$GRSTACK_PYTHON" -c 'import importlib.util as u; print(*u.find_spec("torch_npu").submodule_search_locations)')
"$GRSTACK_PYTHON" "$GRSTACK_OUT/tools/opbuild/opbuild.py" --make-cores "$GRSTACK_OUT/tools/cores/cores.o" \
    --jobs "${GRSTACK_JOBS:-2}" --ascend-home "$GRSTACK_OUT" --include "$torch_npu/include/third_party/acl/inc"
find "$GRSTACK_OUT" -name __pycache__ -prune -exec rm -rf {} +

# torch_npu wants these folders beside lib64, and reads the toolkit's version there.
version=$(sed -n 's/^Version=//p' "$GRSTACK_SOURCE/twin/runtime/version.info")
[[ -n $version ]] || { echo "twin: twin/runtime/version.info names no Version" >&2; exit 1; }
for part in . runtime compiler opp; do
    install -D -m 644 "$GRSTACK_SOURCE/twin/runtime/version.info" "$GRSTACK_OUT/$part/version.info"
done
# The libraries are compiled against libtorch's C++ interface and torch_npu's.
"$GRSTACK_PYTHON" - >> "$GRSTACK_OUT/version.info" << 'END'
from importlib.metadata import version
for name in ("torch", "torch_npu"):
    print(f"{name}={version(name).partition('+')[0]}")
END
mkdir -p "$GRSTACK_OUT/opp/vendors"
install -m 644 "$GRSTACK_SOURCE/twin/set_env.sh" "$GRSTACK_OUT/set_env.sh"
