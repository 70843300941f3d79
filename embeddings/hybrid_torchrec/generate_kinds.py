"""Writes what follows from hybrid_torchrec/kinds.py: constants of C++ and the table of README.md.

    python embeddings/hybrid_torchrec/generate_kinds.py            # writes
    python embeddings/hybrid_torchrec/generate_kinds.py --check    # exit code 1 and the names of files that differ

Needs no package but the standard library. tests/test_generated_kinds.py runs the check.
"""

import argparse
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent
README = ROOT / "README.md"


def load_kinds() -> ModuleType:
    """hybrid_torchrec/kinds.py by its path: the package itself needs torch and its library."""
    spec = importlib.util.spec_from_file_location("kinds", ROOT / "hybrid_torchrec/kinds.py")
    if spec is None or spec.loader is None:
        raise ImportError("hybrid_torchrec/kinds.py is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from hybrid_torchrec import kinds
else:
    kinds = load_kinds()

HEAD = """\
#pragma once

// Generated from hybrid_torchrec/kinds.py by generate_kinds.py; change these instead.
"""

OPTIMIZERS = """
#include "common/kind.h"
#include "row_math/row_kernels.h"

namespace hybrid_torchrec {{

struct OptimizerKind {{
  int64_t number;
  const char* name;
  int64_t moments;         // tensors of state
  bool rowwise;            // the first of them has one number a row
  bool corrects_moments;   // by the number of the table's step
  bool decay_is_gradient;  // weight_decay is part of the gradient (L2), not of the step
  row_math::UpdateOf update;
}};

constexpr OptimizerKind kOptimizers[] = {{
    // clang-format off
{rows}
    // clang-format on
}};

}}  // namespace hybrid_torchrec
"""

EVICTIONS = """
#include "common/kind.h"

namespace hybrid_torchrec {{

enum class Eviction : int64_t {{ {names} }};

struct EvictionKind {{
  int64_t number;
  const char* name;
  bool expires;  // only rows that were not seen for some steps may go

  Eviction order() const {{ return static_cast<Eviction>(number); }}
}};

constexpr EvictionKind kEvictions[] = {{
    // clang-format off
{rows}
    // clang-format on
}};

}}  // namespace hybrid_torchrec
"""

INITIALIZERS = """
#include "common/kind.h"

namespace hybrid_torchrec {{

// By what the parameters a and b are:
{parameters}
enum class Distribution : int64_t {{ {names} }};

struct InitializerKind {{
  int64_t number;
  const char* name;

  Distribution distribution() const {{ return static_cast<Distribution>(number); }}
}};

constexpr InitializerKind kInitializers[] = {{
    // clang-format off
{rows}
    // clang-format on
}};

}}  // namespace hybrid_torchrec
"""


def literal(value: object) -> str:
    """A value as C++ has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def row(*values: object, last: str = "") -> str:
    return f"    {{{', '.join([*(literal(value) for value in values), *([last] if last else [])])}}},"


def enumerators(rows: Iterable[kinds.Numbered]) -> str:
    return ", ".join(f"k{kind.name[0].upper()}{kind.name[1:]} = {kind.number}" for kind in rows)


def optimizers_header() -> str:
    rows = [
        row(
            kind.number,
            kind.name,
            kind.moments,
            kind.rowwise,
            kind.corrects_moments,
            kind.decay_is_gradient,
            last=f"&row_math::Updates::{kind.cpu or kind.name}",
        )
        for kind in kinds.OPTIMIZERS.values()
    ]
    return HEAD + OPTIMIZERS.format(rows="\n".join(rows))


def evictions_header() -> str:
    known = kinds.EVICTIONS.values()
    rows = [row(kind.number, kind.name, kind.expires) for kind in known]
    return HEAD + EVICTIONS.format(names=enumerators(known), rows="\n".join(rows))


def initializers_header() -> str:
    known = kinds.INITIALIZERS.values()
    parameters = [f"// {kind.name}: {kind.a}{f'; {kind.b}' if kind.b else ''}" for kind in known]
    rows = [row(kind.number, kind.name) for kind in known]
    return HEAD + INITIALIZERS.format(parameters="\n".join(parameters), names=enumerators(known), rows="\n".join(rows))


def optimizers_table() -> str:
    lines = ["| kind | step | weight decay | state | defaults | NPU | from |", "|---|---|---|---|---|---|---|"]
    for kind in kinds.OPTIMIZERS.values():
        decay = "in g" if kind.decay_is_gradient else "in the step"
        state = (
            ", ".join(f"momentum{i}: one for each {width}" for i, width in enumerate(kind.states, start=1)) or "none"
        )
        defaults = [] if kind.betas is None else [f"betas={kind.betas}"]
        defaults += [] if kind.eps is None else [f"eps={kind.eps:g}"]
        npu = "PyTorch's operators"
        if kind.gr_ops is not None:
            npu = f"gr_ops{', without decay' if kind.decay_is_gradient else ''}"
        cells = (f"`{kind.name}`", kind.step, decay, state, ", ".join(defaults), npu, kind.reference)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """A page with its table of optimizers anew, which stands between two comments."""
    start, end = "<!-- optimizers: generated by generate_kinds.py -->\n", "\n<!-- end of optimizers -->"
    pattern = f"({re.escape(start)}).*?({re.escape(end)})"
    new, count = re.subn(pattern, rf"\g<1>{optimizers_table()}\g<2>", text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{README.name} must have the comments around the optimizers once, has them {count} times")
    return new


def generated() -> Mapping[Path, str]:
    return {
        ROOT / "csrc/rows/optimizer_kinds.h": optimizers_header(),
        ROOT / "csrc/rows/initializer_kinds.h": initializers_header(),
        ROOT / "csrc/ids/eviction_kinds.h": evictions_header(),
        README: with_table(README.read_text(encoding="utf-8")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file differs")
    check = parser.parse_args().check
    files = generated()
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(path.relative_to(ROOT))
        if not check:
            path.write_text(files[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
