"""What a run is refused for before its first round, and what it is warned of; no torch is needed for it, but by Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unskew.core.decay import decay
from unskew.core.method import Method
from unskew.core.roster import NO_COUNTS, Roster
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.metrics.own import Metric
from unskew.models.outline import Outline
from unskew.notices import warn
from unskew.readings import BY_SAMPLE
from unskew.runs.check_measures import check_measures
from unskew.runs.choose_engine import check_engine, choose, device_name, device_of
from unskew.runs.early_stop import check_stopping
from unskew.runs.judged_by import check_names, check_on_data
from unskew.runs.loading import Loaded
from unskew.runs.spec import Spec


def check_words(spec: Spec) -> None:
    """Refuse what can be refused without data: names that there are not, and what this machine lacks."""
    from unskew.data import load
    from unskew.data.partition.family import build_family
    from unskew.data.sources import SOURCES
    from unskew.expression import build, path_and_options
    from unskew.models import MODELS

    check_measures(spec.measure, Method.parse(spec.method))
    check_names(spec.metrics)
    decay(spec.decay)
    device = device_name(spec)
    if spec.engine == "ray":
        choose(spec, device_of(spec), work=0.0)
    elif device == "cpu":
        check_engine(spec, on_gpu=False)
    if spec.emd is None and not spec.partition.endswith(".npz"):
        build_family(spec.partition)
    if spec.model != "auto" and ":" not in spec.model.partition("(")[0]:
        build(spec.model, MODELS, "model")
    data = path_and_options(spec.dataset)[0].strip()
    if data not in SOURCES and not Path(data).expanduser().exists():
        load(spec.dataset, data_folder=spec.data_folder)  # which says what is wrong with it


def check(
    spec: Spec, loaded: Loaded, model: Outline, cohort: int, dealt: Roster, metrics: Mapping[str, Metric]
) -> None:
    """Refuse what parts cannot do with this data and this model, and warn of what they would do in vain."""
    dataset = loaded.federation.dataset
    if not len(dataset.y_test):
        raise InputError(f"{dataset.name} has no test samples to judge a model by; hold some out")
    check_on_data(spec.metrics, metrics, dataset)
    check_stopping(spec, (*CLASSIFICATION.fitting(dataset.classes), *metrics), dealt)
    first = spec.metrics[0] if spec.metrics else "accuracy"
    if spec.validation_of == "client" and (first in BY_SAMPLE or first in metrics):
        raise InputError(
            f"a run cannot choose by {first} on validation samples that stay with clients: only counts of them reach "
            "the server; write validation_of = all, or name another metric first"
        )
    for part in loaded.method.parts:
        if part.needs_counts and not dealt.counted:
            raise InputError(f"{part.name} {NO_COUNTS}")
        part.check(dealt, cohort)
        if part.begins >= spec.rounds:
            warn(
                f"{part.name} does nothing before round {part.begins + 1}, and the run ends after {spec.rounds}; "
                "let it start sooner or the run last longer",
                stacklevel=2,
            )
    for objective in loaded.method.objective:
        if objective.needs.global_answers and spec.batch_norm == "drop" and model.has_statistics:
            warn(
                f"{objective.name} asks the global model for answers, and with batch_norm = drop that gives them by "
                "the statistics of a model never trained (mean 0, variance 1); write batch_norm = average or local",
                stacklevel=2,
            )
    for part in loaded.method.parts:
        part.check_model(model)
