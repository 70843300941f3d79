"""sharded_training, and at the end what serves the process: no line here or there imports gr_ops (run as a program)."""

import re
import sys
from pathlib import Path

import sharded_training as program


def operator_packages() -> set[str]:
    """The operator packages that the process has mapped: the first call of an operator does."""
    return set(re.findall(r"opp/vendors/(\w+)/op_api", Path("/proc/self/maps").read_text()))


if __name__ == "__main__":
    program.main(sys.argv[1], Path(sys.argv[2]), [program.Case.of(name) for name in sys.argv[3:]])
    print("operator packages:", *sorted(operator_packages()))
