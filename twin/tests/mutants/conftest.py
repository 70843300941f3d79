import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# The launcher, and the references that the operators' own tests use.
sys.path[:0] = [str(TESTS / "launcher"), str(TESTS.parents[1] / "kernels/operators/common/tests")]
