"""What this image is, and what to type: printed by `docker run IMAGE`."""

import json
import os
from importlib.metadata import version
from pathlib import Path

manifest = json.loads((Path(__file__).parent.parent / "manifest.json").read_text())
target, platform, image = (manifest[name] for name in ("target", "platform", "image"))
devel = os.environ.get("GRSTACK_VARIANT") == "devel"
image += "-devel" if devel else ""
emulated = "; its NPUs are emulated: correctness, not speed" if manifest["emulated"] else ""
packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torchrec", "gr_ops", "hybrid_torchrec"))
if devel:
    more = "with compilers, build tools and the tests (below /opt/grstack/src)"
elif platform == "cann":
    more = "the tests are in its devel variant: inv build-image --platform cann --devel"
else:
    more = f"compilers, build tools and tests are in its devel variant: inv build-image --target {target} --devel"
devices = {"cuda": "--gpus all ", "cann": "DEVICES "}.get(platform, "")
print(f"""grstack/{target}: training and serving of generative recommenders (HSTU){emulated}
Python {manifest["python"]}, {packages}
{more}

  docker run --rm --shm-size 1g {devices}-v "$PWD/data:/data" {image} \\
      python -m gr_model.train --config smoke --device {target}
  docker run --rm {image} python -m gr_model.train --help
  docker run --rm -it {image} bash
  docker run --rm {image} cat /opt/grstack/manifest.json     from what this image was built
""")
if platform == "cann":
    print('DEVICES hand over NPUs and their driver: inv run --platform cann --print "COMMAND" shows them.')
print("""data/ holds ml-100k/, by `make fetch-data ARGS=ml-100k` in a checkout of grstack. To keep a run, mount a folder
that you can write to and be its user: -v "$PWD/out:/out" --user "$(id -u):$(id -g)". --read-only is fine: /tmp and
/out are volumes, and nothing else is written to.""")
