"""The vendors and the packages in the image."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grstack import commands
from grstack.choices import Choices
from grstack.engines.docker import DockerEngine
from grstack.errors import UsageError
from grstack.execute import execute
from tests.integration.opp_packages import CUMSUM, Real, camel, run

pytestmark = pytest.mark.image


def test_the_vendors_of_the_image(real: Real, output: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    capsys.readouterr()
    assert commands.opp(Choices(), "verify", image=True, as_json=True) == 0
    state = json.loads(capsys.readouterr().out)
    assert {c["vendor"]["name"] for c in state["found"]} == {f"mxrec_{name}" for name in real.operators}
    assert state["problems"] == [] and all(c["not_asked"] == "" for c in state["found"])
    assert commands.opp(Choices(), "which", camel(CUMSUM), image=True) == 0
    assert f"served by mxrec_{CUMSUM}" in output.getvalue()
    with pytest.raises(UsageError, match="cannot be removed from it"):
        commands.opp(Choices(), "remove", f"mxrec_{CUMSUM}", image=True)


IN_IMAGE = """
set -eu
vendors=$ASCEND_OPP_PATH/vendors
version() { sed -n "s/^package_version=//p" $vendors/mxrec_$1/version.info; }
first() { sed -n "s/^load_priority=//p" $vendors/config.ini | cut -d, -f1; }
bash /newer.run | sed -n 1p
echo "first $(first), version $(version asynchronous_complete_cumsum)"
bash /real.run | sed -n 1p
bash /real.run | sed -n 1p
echo "version $(version asynchronous_complete_cumsum)"
setpriv --reuid=65534 --clear-groups bash /real.run || echo "refused to a user"
HOME=/tmp setpriv --reuid=65534 --clear-groups bash /real.run --quiet --install-path="/tmp/his own opp"
bash /real.run --uninstall --quiet
echo "first $(first)"
"""


CALL = """
import torch, torch_npu, gr_ops
try:
    print("gives", torch.ops.mxrec.asynchronous_complete_cumsum(torch.tensor([2, 3]).npu()).tolist())
except RuntimeError as error:
    print("raises", str(error).splitlines()[0])
"""
ANOTHER_RELEASE = f"""
set -eu
call() {{ python -c '{CALL}' | grep -E '^(gives|raises)'; }}
call
bash /other.run --quiet > /dev/null
call
bash /real.run --quiet > /dev/null
call
"""


def test_a_package_of_another_release_is_refused_by_the_plugin(
    real: Real, output: io.StringIO, repack: Callable[..., Path]
) -> None:
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    other = repack(CUMSUM, interface="0123456789ab")
    volumes = [f"--volume={real.package(CUMSUM)}:/real.run:ro", f"--volume={other}:/other.run:ro"]
    assert isinstance(s.engine, DockerEngine)
    image = s.engine.image_id(s.plan)
    done = run(["docker", "run", "--rm", "--user=0", "--network=none", *volumes, image, "bash", "-c", ANOTHER_RELEASE])
    assert done.returncode == 0, done.stderr
    works, refused, again = done.stdout.splitlines()
    assert works == again == "gives [0, 2, 5]"
    assert (
        refused.startswith("raises aclnnAsynchronousCompleteCumsum")
        and ", got 0123456789ab. Install the packages of this release: make install-ops" in refused
    )


def test_packages_in_the_image(real: Real, output: io.StringIO, repack: Callable[..., Path]) -> None:
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    volumes = [
        f"--volume={real.package(CUMSUM)}:/real.run:ro",
        f"--volume={repack(CUMSUM, version='2.0.0')}:/newer.run:ro",
    ]
    assert isinstance(s.engine, DockerEngine)
    image = s.engine.image_id(s.plan)
    done = run(["docker", "run", "--rm", "--user=0", "--network=none", *volumes, image, "bash", "-c", IN_IMAGE])
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last in {f"first mxrec_{name}" for name in real.operators if name != CUMSUM}
    assert lines == [
        f"upgrading mxrec_opp_{CUMSUM} from 0.1.0 to 2.0.0",
        f"first mxrec_{CUMSUM}, version 2.0.0",
        f"downgrading mxrec_opp_{CUMSUM} from 2.0.0 to 0.1.0",
        f"reinstalling mxrec_opp_{CUMSUM} 0.1.0",
        "version 0.1.0",
        "refused to a user",
        "SUCCESS",
        "SUCCESS",
    ]
    assert "cannot write into" in done.stderr
