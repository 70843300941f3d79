"""A short run against the popularity baseline on the same split."""

from __future__ import annotations

from gr_model import baselines, checkpoint
from smoke_tests.check import Chart, CheckFailed, Context, Curve, Outcome
from smoke_tests.checks import losses, training

STEPS, EVERY, FACTOR, METRIC = 200, 25, 2.0, "hr@10"


def run(context: Context) -> Outcome:
    run = training.trainer(context, "ml-100k-retrieval", context.device)
    saved = context.scratch / losses.CHECKPOINT
    if saved.exists():  # 50 steps are already done; without them (--only quality) the run starts at 0
        run.load_state(checkpoint.load(saved))
    begin, record, metrics = run.step, training.Record(), []
    while run.step < STEPS:
        part = training.steps(run, EVERY)
        record.losses += part.losses
        record.seconds += part.seconds
        metrics.append((run.step, run.evaluate()))
        print(metrics[-1])
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
            Chart(f"Retrieval: training loss from step {begin + 1}", [Curve("loss", record.points(begin + 1))]),
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
