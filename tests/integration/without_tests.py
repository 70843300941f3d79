"""Run by the Python of a plain image: no package of its devel variant is there, none is missed."""

import importlib
import importlib.metadata
import importlib.util
import json
import pkgutil
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = ("gr_model", "smoke_tests", "gr_ops", "hybrid_torchrec", "torchrec_embcache")
OTHERS = (  # that a user of the image may import
    *("scipy.stats", "scipy.optimize", "sklearn.metrics", "sklearn.model_selection", "sklearn.ensemble", "pandas"),
    *("matplotlib.pyplot", "torch.utils.tensorboard", "torch.testing", "tensordict", "triton.language", "fbgemm_gpu"),
)
absent = set(json.loads(Path("/opt/grstack/manifest.json").read_text())["devel_packages"])
there = {canonicalize_name(found.metadata["Name"]): found for found in importlib.metadata.distributions()}
faults = [f"{name} is installed" for name in sorted(absent & there.keys())]
faults += [f"{name} can be imported" for name in ("pytest", "hypothesis") if importlib.util.find_spec(name)]
for distribution, found in there.items():
    for line in found.requires or ():
        needed = Requirement(line)
        if canonicalize_name(needed.name) in absent and (
            needed.marker is None or needed.marker.evaluate({"extra": ""})
        ):
            faults.append(f"{distribution} needs {needed.name}")


def modules(package: str) -> list[str]:
    """By their names: a module whose import fails is not passed over."""
    found = importlib.import_module(package)
    return [name for _, name, _ in pkgutil.walk_packages(found.__path__, f"{package}.", onerror=lambda _: None)]


imported = 0
others = [name for name in OTHERS if importlib.util.find_spec(name.split(".")[0])]
for name in [*others, *(m for package in OURS for m in modules(package)), *modules("torchrec")]:
    if name.startswith("torchrec.") and ("test" in name or name.split(".")[1] == "github"):
        continue
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
        imported += 1
    except BaseException as error:
        if any(module in str(error) for module in ("pytest", "hypothesis")):
            faults.append(f"{name}: {error!r}")
print(imported)
sys.exit("\n".join(faults) or 0)
