"""What is run on a user's devices, in order; and, shorter, on the emulated ones as a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from grstack.errors import UsageError

NEVER = "never"
EMULATED = "emulated"  # the mark of tests that read what the twin counts, or set it


@dataclass(frozen=True, kw_only=True)
class Part:
    """One program in the image.

    argv: SOURCE, DATA and OUT at a word's start stand for the folders as the program sees them, MANIFEST for the
    image's. rehearsal: what runs on emulated devices instead, where the whole would take too long; () for the same.
    npus: how many it needs to show anything. figures: a JSON file that the program leaves in OUT; * stands for any
    text. hardware: the devices and toolkit of the first report that came back with this part passed, and its commit;
    NEVER until there is one.
    """

    name: str
    claim: str
    argv: tuple[str, ...]
    minutes: int  # its limit
    rehearsal: tuple[str, ...] = ()
    npus: int = 1
    figures: str = ""
    hardware: str = NEVER

    @property
    def results(self) -> str:
        """The JUnit file of a suite of tests, in OUT; empty for other programs."""
        return f"{self.name}.xml" if "pytest" in self.argv else ""


def _suite(
    name: str, claim: str, minutes: int, *places: str, rehearse: str, ignore: tuple[str, ...] = (), npus: int = 1
) -> Part:
    """A suite of tests, but for what only emulated devices can show; its rehearsal is one file of it.

    ignore: what uses no device, or what the image does not hold (the wheels that it was made of).
    """
    common = ["python", "-m", "pytest", "-q", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:ascend_twin"]
    common += ["--rootdir", "SOURCE", "--override-ini=pythonpath=SOURCE", f"--junit-xml=OUT/{name}.xml"]
    common += [f"--ignore=SOURCE/{place}" for place in ignore]
    return Part(
        name=name,
        claim=claim,
        argv=(*common, "-m", f"not slow and not {EMULATED}", *(f"SOURCE/{place}" for place in places)),
        rehearsal=(*common, "-m", "not slow", f"SOURCE/{rehearse}"),
        minutes=minutes,
        npus=npus,
    )


PARTS = (
    Part(
        name="machine",
        claim="torch_npu imports, finds the devices, and one of them adds two numbers",
        argv=("python", "-m", "grstack.accept.machine", "--out", "OUT/machine.json", "--manifest", "MANIFEST"),
        figures="machine.json",
        minutes=10,
    ),
    Part(
        name="smoke",
        claim="the smoke test: versions, libraries, operators, training, resuming, sharding, collectives",
        argv=(
            *("python", "-m", "smoke_tests", "--out", "OUT/smoke", "--data-dir", "DATA"),
            *("--lock", "LOCK", "--manifest", "MANIFEST"),
        ),
        minutes=60,
    ),
    _suite(
        "operators",
        "each Ascend C operator against its reference, called through aclnn",
        120,
        "kernels/operators",
        rehearse="kernels/operators/asynchronous_complete_cumsum/tests",
    ),
    _suite(
        "gr_ops",
        "the operators called from PyTorch, forward and backward, against the CPU's",
        120,
        "kernels/gr_ops/tests",
        ignore=("kernels/gr_ops/tests/cuda",),
        rehearse="kernels/gr_ops/tests/test_golden.py",
    ),
    _suite(
        "torchrec",
        "torchrec's modules and sharding types on NPUs have the CPU's results",
        120,
        "recipes/torchrec/tests",
        ignore=("recipes/torchrec/tests/test_wheel.py", "recipes/torchrec/tests/test_cpu_unchanged.py"),
        rehearse="recipes/torchrec/tests/test_grid.py",
    ),
    _suite(
        "hybrid_torchrec",
        "hash tables on NPUs: lookups, optimizers, policies, checkpoints, sharding",
        180,
        "embeddings/hybrid_torchrec/tests",
        ignore=("embeddings/hybrid_torchrec/tests/cuda",),
        rehearse="embeddings/hybrid_torchrec/tests/test_lion.py",
    ),
    _suite(
        "torchrec_embcache",
        "tables larger than an NPU's memory, in its cache, the host's memory and files",
        180,
        "embeddings/torchrec_embcache/tests",
        rehearse="embeddings/torchrec_embcache/tests/test_on_devices.py",
    ),
    _suite(
        "gr_model",
        "training on NPUs has the CPU's losses, also with several processes and after a resume",
        180,
        "gr_model/tests",
        ignore=("gr_model/tests/cuda",),
        rehearse="gr_model/tests/test_trainer.py",
    ),
    _suite(
        "hccl",
        "collectives of torch.distributed over hccl give what gloo gives, on two and on four devices",
        30,
        "twin/tests/hccl/test_torch.py",
        rehearse="twin/tests/hccl/test_torch.py",
        npus=2,
    ),
    Part(
        name="operator_times",
        claim="times of the operators, beside the bound of bytes and products",
        argv=("python", "-m", "benchmarks.operators_device", "--device", "npu", "--out", "OUT/operator-times.json"),
        rehearsal=(
            *("python", "-m", "benchmarks.operators_device", "--device", "npu", "--small"),
            *("--out", "OUT/operator-times.json"),
        ),
        figures="operator-times.json",
        minutes=30,
    ),
    Part(
        name="step_time",
        claim="time of a training step of the source article's model",
        argv=(
            *("python", "-m", "benchmarks.training_device", "--device", "npu", "--cases", "article", "article+bias"),
            *("--out", "OUT/step"),
        ),
        rehearsal=(
            *("python", "-m", "benchmarks.training_device", "--device", "npu", "--cases", "article", "--steps", "1"),
            *("--workers", "0", "--out", "OUT/step", "--set", "model.max_items=64", "train.batch=2", "model.dim=32"),
            *("model.heads=1", "model.qk_dim=32", "model.value_dim=32", "model.blocks=1"),
            "ranking.held_out=8",
        ),
        figures="step/training-*.json",
        minutes=60,
    ),
)


def chosen(only: str) -> tuple[Part, ...]:
    """The parts that `only` names, by commas, in their order; all of them where it is empty."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [part.name for part in PARTS]
    for name in names:
        if name not in known:
            raise UsageError.unknown("part", name, known, next_command="inv accept --list")
    return tuple(part for part in PARTS if not names or part.name in names)
