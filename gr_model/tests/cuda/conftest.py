"""Without a GPU the kernels run in Triton's interpreter, which must be asked for before they are imported."""

import os
from pathlib import Path

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"
