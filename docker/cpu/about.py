"""What this image is, and what to type: printed by `docker run IMAGE`."""

import json
from importlib.metadata import version
from pathlib import Path

manifest = json.loads((Path(__file__).parent.parent / "manifest.json").read_text())
target = manifest["target"]
packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torchrec", "gr_ops", "hybrid_torchrec"))
emulated = " (its NPUs are emulated: correctness, not speed)" if manifest["emulated"] else ""
print(f"""grstack/{target}: training and serving of generative recommenders (HSTU), target {target}{emulated}
Python {manifest["python"]}, {packages}

  docker run --rm -v "$PWD/data:/data:ro" IMAGE python -m gr_model.train --config smoke --device {target}
  docker run --rm IMAGE python -m gr_model.train --help
  docker run --rm -it IMAGE bash
  docker run --rm IMAGE cat /opt/grstack/manifest.json     from what this image was built

data/ holds ml-100k/, by `make fetch-data ARGS=ml-100k` in a checkout of grstack. To keep a run, mount a folder that
you can write to and be its user: --volume "$PWD/out:/out" --user "$(id -u):$(id -g)". --read-only is fine: /tmp and
/out are volumes, and nothing else is written to.""")
