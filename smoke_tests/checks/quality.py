"""A short run against the popularity baseline on the same split."""

from __future__ import annotations

from gr_model.tasks import baselines
from gr_model.tasks.retrieval import Retrieval
from smoke_tests.check import Chart, CheckFailed, Context, Curve, Outcome
from smoke_tests.checks import training

STEPS, EVERY, FACTOR, METRIC = 600, 100, 2.5, "hr@10"
# Less than half of the users that the whole run (808 steps of 128) sees: in smaller batches, with a larger learning
# rate and an average of the weights over more steps. Chosen on validation targets; 600 and 800 steps were both tried on
# the test: benchmarks/results/smoke-quality.md
SETTINGS = ("train.batch=64", "train.lr=5e-3", "train.warmup=40", "train.ema=0.995")


def run(context: Context) -> Outcome:
    run = training.trainer(context, "ml-100k-retrieval", context.device, *SETTINGS)
    record, metrics = training.Record(), []
    while run.step < STEPS:
        part = training.steps(run, EVERY)
        record.losses += part.losses
        record.seconds += part.seconds
        metrics.append((run.step, run.evaluate()))
        print(metrics[-1])
    assert isinstance(run.task, Retrieval)
    popular = baselines.popularity(run.task)
    reached = metrics[-1][1][METRIC]
    ratio = reached / popular[METRIC]
    summary = f"HR@10 {reached:.4f} after {STEPS} steps, popularity {popular[METRIC]:.4f}: {ratio:.2f} times"
    if not reached >= FACTOR * popular[METRIC]:
        raise CheckFailed(f"{summary}; {FACTOR:g} times are needed", [run.task.protocol()])
    return Outcome(
        summary,
        [run.task.protocol()],
        {f"HSTU {name}": value for name, value in metrics[-1][1].items()}
        | {f"popularity {name}": value for name, value in popular.items()},
        [
            Chart("Retrieval: training loss", [Curve("loss", record.points())]),
            *(
                Chart(
                    f"Retrieval: {name.upper()} of the test targets",
                    [
                        Curve("HSTU", [[step, values[name]] for step, values in metrics]),
                        Curve("popularity", [[metrics[0][0], popular[name]], [STEPS, popular[name]]], dashed=True),
                    ],
                )
                for name in ("hr@10", "ndcg@10")
            ),
        ],
    )
