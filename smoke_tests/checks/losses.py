"""The same seed on the CPU and on the device: losses, and the AUC of the ranking model."""

from __future__ import annotations

import statistics

from smoke_tests.check import Chart, CheckFailed, Context, Curve, Outcome
from smoke_tests.checks import training

RETRIEVAL_STEPS, FUSED_STEPS, RANKING_STEPS = 50, 10, 10
TOLERANCE, AUC_TOLERANCE = 1e-5, 1e-3


def run(context: Context) -> Outcome:
    retrieval = training.trainer(context, "ml-100k-retrieval", context.device)
    there = training.steps(retrieval, RETRIEVAL_STEPS)
    here = training.steps(training.trainer(context, "ml-100k-retrieval", "cpu"), RETRIEVAL_STEPS)
    fused = training.trainer(context, "ml-100k-retrieval", context.device, "model.attention=fused")
    fused_there = training.steps(fused, FUSED_STEPS)

    ranking_there, ranking_here = (
        training.trainer(context, "ml-100k-ranking", device) for device in (context.device, "cpu")
    )
    rank_there, rank_here = training.steps(ranking_there, RANKING_STEPS), training.steps(ranking_here, RANKING_STEPS)
    auc_there, auc_here = ranking_there.evaluate(), ranking_here.evaluate()

    differences = {
        "retrieval": relative(there.losses, here.losses),
        "retrieval with torch.ops.mxrec.hstu_dense": relative(fused_there.losses, here.losses[:FUSED_STEPS]),
        "ranking": relative(rank_there.losses, rank_here.losses),
    }
    faults = [
        f"{task}: relative difference {max(values):.2e} at step {values.index(max(values)) + 1}"
        for task, values in differences.items()
        if not max(values) <= TOLERANCE
    ]
    faults += [
        f"{name}: {auc_there[name]:.5f} on {context.device}, {auc_here[name]:.5f} on cpu"
        for name in auc_here
        if not abs(auc_there[name] - auc_here[name]) <= AUC_TOLERANCE
    ]
    if here.losses[-1] >= here.losses[0]:
        faults.append(f"the loss does not fall: {here.losses[0]:.4f} to {here.losses[-1]:.4f}")
    if faults:
        raise CheckFailed(f"{context.device} and cpu differ", faults)
    worst = max(max(values) for values in differences.values())
    return Outcome(
        f"largest relative difference {worst:.1e} over {RETRIEVAL_STEPS} + {FUSED_STEPS} + {RANKING_STEPS} steps",
        figures={
            "largest relative difference of a loss": worst,
            "largest difference of an AUC": max(abs(auc_there[n] - auc_here[n]) for n in auc_here),
            f"seconds for {RETRIEVAL_STEPS} steps on {context.device}": sum(there.seconds),
            f"seconds for {RETRIEVAL_STEPS} steps on cpu": sum(here.seconds),
            f"median seconds per step on {context.device}": statistics.median(there.seconds),
            f"median seconds per step on {context.device}, attention by hstu_dense": statistics.median(
                fused_there.seconds
            ),
            "median seconds per step on cpu": statistics.median(here.seconds),
        },
        charts=[
            Chart(
                "Retrieval: training loss, same seed",
                [Curve(context.device, there.points()), Curve("cpu", here.points(), dashed=True)],
                "MovieLens-100K, batch 128, sequence 200, dim 50, 2 blocks; the curves must coincide",
            ),
            Chart(
                "Ranking: training loss, same seed",
                [Curve(context.device, rank_there.points()), Curve("cpu", rank_here.points(), dashed=True)],
            ),
        ],
    )


def relative(a: list[float], b: list[float]) -> list[float]:
    return [abs(x - y) / abs(y) for x, y in zip(a, b, strict=True)]
