"""The notebook's kernel in the image's Python: ipykernel's packages stand behind those of the image, which win."""

import sys
import warnings
from pathlib import Path

here = Path(__file__).resolve()
sys.path.remove(str(here.parent))  # the files of this folder are no modules of the user's
sys.path.append(str(here.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"))

from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from traitlets.config import Config  # noqa: E402

# torch_npu tells that it takes no task queue in a session such as this.
warnings.filterwarnings("ignore", message="On the interactive interface", category=UserWarning)
# ipykernel names its backend in a variable, which commands of the notebook would inherit and not find.
lines = ["%matplotlib inline", "import os; os.environ.pop('MPLBACKEND', None); del os"]
IPKernelApp.launch_instance(config=Config({"InteractiveShellApp": {"exec_lines": lines}}))
