"""How quiet the steps of a stream are: every single one is timed, and the slow ones are traced to their causes."""

from __future__ import annotations

from statistics import median

from nystream.lab.bench import floor
from nystream.lab.bench.causes import causes, chance, figures, machine, own_share, slow_phases
from nystream.lab.bench.contenders import Pooled
from nystream.lab.bench.loops import CALLS, loops
from nystream.lab.bench.settings import BenchSettings, Part, target
from nystream.lab.bench.sizes import build_model, tokens
from nystream.lab.bench.timing import collect
from nystream.lab.bench.watch import counts_switches, watched
from nystream.progress import Advance

TURN = 80  # steps in a turn, which with 300 turns are 24,000
SECONDS = 4.0  # approximate time per job in total: a slow backend has shorter turns
PUSH = "pool.push"
NOTE = "for an idle core"
OWN_LIMIT = 0.01  # share of steps: with more, p99 is a slow one


def quiet(settings: BenchSettings, advance: Advance) -> Part:
    """A stream with fixed landmarks in turns with two loops, which show the machine's own share of slow steps.

    The garbage collector is left on, as users have it.
    """
    sizes = settings.sizes
    cycle = 2 * sizes.window
    model = build_model(sizes, settings.seed)
    pool = Pooled(model, settings.backend)
    feed = tokens(cycle, sizes.input_dim, settings.seed)
    pool.fill(feed)
    push = pool.job(feed)
    each = median(collect({PUSH: push}, 2, CALLS)[PUSH][-1])
    turn = max(2, min(TURN, round(SECONDS / settings.rounds / each)))
    jobs = {PUSH: push, **loops(each, floor.weights(model, pool.pool._backend)[1])}
    steps = watched(jobs, settings.rounds, turn, advance)
    others = {name: taken for name, taken in steps.items() if name != PUSH}
    rows = [{"name": name, **figures(taken)} for name, taken in steps.items()]
    alone = machine(steps[PUSH], others)
    goal = target("p99 of a step against the median, fixed landmarks", rows[0]["p99_over_median"], 2, False)
    noisy = alone["p99_over_median"] > goal["limit"]
    why = causes(steps[PUSH], cycle, others)
    own = own_share(why)
    record = {
        "backend": pool.backend,
        "cycle": cycle,
        "counts_switches": counts_switches(),
        "slow_phases": slow_phases(steps[PUSH], cycle),
        "collections": int(steps[PUSH].collections.sum()),
        "machine": alone | {"noisy": noisy},
        "chance": chance(steps[PUSH], others),
        "rows": rows,
        "causes": why,
        "own_share": own,
    }
    # On a noisy machine, no code can meet it; but a pool that would miss it on its own is not excused.
    targets = (
        [goal | {"note": NOTE, "noisy": noisy and own < OWN_LIMIT}]
        if settings.has_targets and pool.backend == "numba"
        else []
    )
    return record, targets
