"""The server's loop over centers that are ready, under any plan and rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vedute.model.master import MasterRule
from vedute.model.parameters import GlobalPrior, Schema
from vedute.privacy.policies import NoPrivacy
from vedute.run.center import Center, CenterData
from vedute.run.exchange import InProcess, Participant
from vedute.run.protocol import Job, Progress
from vedute.run.server import Master
from vedute.run.server import rounds as server_rounds
from vedute.run.settings import Plan, Settings


def rounds(
    centers: Sequence[Center],
    start: GlobalPrior,
    plan: Plan,
    rule: MasterRule,
    *,
    n_rounds: int,
    tol: float | None,
    threads: int = 1,
    resume: Progress | None = None,
    on_round: Callable[[Progress], None] | None = None,
) -> Progress:
    """From ``start``, or from where the rounds stand."""
    schema = Schema({name: tuple(f"x{j}" for j in range(len(view.mu))) for name, view in start.views.items()})
    job = Job(schema, Settings(plan.q))
    participants = [Participant(one.name, CenterData(one.statistics, None, None), center=one) for one in centers]
    exchange = InProcess(job, participants, policy=NoPrivacy(), threads=threads)
    exchange.plan = plan
    master = Master(rule, tol, NoPrivacy())
    return server_rounds(exchange, master, resume or Progress(start), n_rounds, on_round=on_round)
