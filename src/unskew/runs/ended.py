"""A run that has ended, as ``run()`` and ``resume()`` give it back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.core.engine import Job, RunPlan
from unskew.core.evaluate import calibrate_copy
from unskew.core.kept import refuse_far
from unskew.core.memory_names import OWN_MODEL
from unskew.core.net import Net
from unskew.core.state import State
from unskew.data.intake import Intake
from unskew.errors import InputError
from unskew.import_object import drawing_of
from unskew.machine.threads import single_threaded
from unskew.models.trained import TrainedModel
from unskew.runs.client_names import keeper_of
from unskew.runs.folder import RunFolder
from unskew.runs.judged_by import chosen
from unskew.runs.model_files import intake_of
from unskew.runs.snapshots import read_model
from unskew.runs.spec import Spec
from unskew.runs.with_model import Predicts, make_trained_model

if TYPE_CHECKING:
    import pandas as pd

    from unskew.data.partition import Partition


@dataclass
class Run(Predicts):
    """A run that has ended: its numbers, its log, its model."""

    folder: RunFolder
    spec: Spec
    state: State
    net: Net
    partition: Partition | None
    plan: RunPlan

    @property
    def result(self) -> dict[str, Any]:
        """What came out: accuracies, costs, skew, what was disclosed; the content of ``result.json``."""
        return self.folder.result

    @property
    def job(self) -> Job:
        """What travelled to wherever clients trained."""
        return self.plan.job

    @property
    def path(self) -> Path | None:
        """The run's folder, where it has one."""
        return self.folder.path

    @property
    def intake(self) -> Intake:  # type: ignore[override]
        """What the model takes."""
        return intake_of(self.plan)

    @property
    def model(self) -> TrainedModel:
        """The final global model, a copy of your own: it takes raw inputs, normalisation is inside it.

        Where the method calibrates, it is the calibrated copy.
        """
        if not self.job.method.schedule.exchanges:
            raise InputError(
                f"{self.spec.method} makes no global model: every client keeps its own; name a client: "
                "run.client_model(0), run.save(..., client=0), or --client 0 on the command line"
            )
        return final_model(self.plan, self.state)

    def client_model(self, client: int | str) -> TrainedModel:
        """The model that a client keeps, by its number or its name, where clients keep their own (local_only)."""
        kept = self.state.clients.rows.get(OWN_MODEL, {})
        roster, exchanges = self.job.roster, self.job.method.schedule.exchanges
        at = keeper_of(client, roster.clients, roster.names, kept, self.spec.method, exchanges)
        model = self.state.clients.get(OWN_MODEL, at, {})
        refuse_far(client, model)
        return make_trained_model(self.net, model, self.job)

    def model_of(self, round: int | None) -> TrainedModel:
        """The global model that a round ended with, of those that were kept (``keep``); None is the last."""
        if round is None:
            return self.model
        if self.path is None:
            raise InputError(
                "a run in memory keeps no models of earlier rounds; give it a folder (out=) and keep="
            )
        return make_trained_model(self.net, read_model(self.path, round)[1], self.job)

    def _told_of_model(self, client: int | str | None, round: int | None) -> dict[str, Any]:
        told = {
            "model": self.result["effective"].get("model", self.spec.model),
            "method": self.spec.method,
            "dataset": self.spec.dataset,
        }
        if client is not None:
            return told | {"client": str(client)}
        calibrated = bool(self.job.method.calibrate) and round is None
        return told | {"round": self.state.round if round is None else round, "calibrated": calibrated}

    def frame(self) -> pd.DataFrame:
        """The log as a table, one row per round."""
        import pandas as pd

        return pd.json_normalize(self.folder.lines, sep="_")

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report of this run and return where it is."""
        written: Path = drawing_of("unskew.report:write_report")([self], path)
        return written

    def __repr__(self) -> str:
        first = chosen(self.spec.metrics, self.result.get("data", {}))[0]
        shown = f"{first.title} {first.say((self.result.get('final') or {}).get(first.name))}"
        return f"Run({self.spec.method!r} on {self.spec.dataset}, {self.state.round} rounds, {shown})"

    def _repr_html_(self) -> str:
        return str(drawing_of("unskew.report:run_card")(self))


def final_model(plan: RunPlan, state: State) -> TrainedModel:
    """The model after these rounds; after the last one the calibrated copy, where the method makes one."""
    params = state.params
    if state.round == plan.end:
        with single_threaded():
            params, _ = calibrate_copy(plan, params, state.round)
    return make_trained_model(plan.job.net, params, plan.job)
