"""What a trained model says of raw inputs: labels and probabilities."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.arrays import Array
from unskew.core.task import CLASSIFICATION
from unskew.data.intake import Inputs
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    import pandas as pd

    from unskew.models.trained import TrainedModel

LABEL = "prediction"
"""The column of an answer's table that holds the label; the probabilities follow as probability_CLASS."""


@dataclass(frozen=True)
class Prediction:
    """One label and one probability per class for each sample: ``labels, probabilities = run.predict(x)``.

    Labels are the classes' names, always as text; ``probabilities.argmax(1)`` is the place of each in ``classes``,
    which names the columns of ``probabilities``. A row that the model's rule for missing values leaves out
    (impute=drop) has an empty label and NaN.
    """

    labels: Array
    probabilities: Array
    classes: tuple[str, ...]
    inputs: Inputs = field(repr=False)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.labels, self.probabilities))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def left_out(self) -> int:
        """How many rows have no answer."""
        return int((~self.inputs.usable).sum())

    @property
    def accuracy(self) -> float | None:
        """The share of right answers, where the input tells the classes; of the rows that have an answer."""
        if self.inputs.truth is None or not self.inputs.usable.any():
            return None
        return float((self.labels == self.inputs.truth)[self.inputs.usable].mean())

    @property
    def unknown_classes(self) -> tuple[str, ...]:
        """Classes that the input tells and the model does not know: no answer to their rows is right."""
        told = () if self.inputs.truth is None else self.inputs.truth[self.inputs.usable].tolist()
        return tuple(sorted(set(told) - set(self.classes)))

    def columns(self) -> dict[str, Any]:
        """The answers by column: the label, then a probability per class."""
        shares = {f"probability_{name}": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        return {LABEL: self.labels, **shares}

    def frame(self) -> pd.DataFrame:
        """The inputs' own columns (or the file's or sample's name) and the answers, one row per sample."""
        import pandas as pd

        return pd.DataFrame(self._whole_columns())

    def csv(self, separator: str = ",") -> str:
        """``frame`` as text. pandas takes half a second to load, and has read the input where that was a table."""
        if "pandas" in sys.modules:
            return str(self.frame().to_csv(index=False, sep=separator))
        columns, text = self._whole_columns(), io.StringIO()
        rows = csv.writer(text, delimiter=separator, lineterminator=os.linesep)
        rows.writerow(columns)
        rows.writerows(zip(*(map(_cell, values) for values in columns.values()), strict=True))
        return text.getvalue()

    def _whole_columns(self) -> dict[str, Any]:
        answers = self.columns()
        if twice := next((name for name in answers if name in self.inputs.rows), None):
            raise InputError(f"the input has a column {twice!r} already; rename it")
        return {**self.inputs.rows, **answers}


def _cell(value: Any) -> Any:
    """A value as pandas writes it: nothing where it is NaN."""
    return None if value != value else value


def predict(model: TrainedModel, inputs: Inputs, labels: tuple[str, ...]) -> Prediction:
    """Judge raw inputs as the test set is judged: in blocks of 500, in evaluation mode."""
    from unskew.core.net import blocks

    at = np.flatnonzero(inputs.usable)
    shares = np.full((len(inputs), len(labels)), np.nan)
    chosen = np.zeros(len(inputs), np.int64)  # 0: no answer
    with torch.inference_mode():
        for block in blocks(len(at), model.by_batch) if len(at) else ():
            x = torch.from_numpy(np.ascontiguousarray(inputs.x[at[block]]))
            found = CLASSIFICATION.probabilities(model(x).double())
            shares[at[block]] = found.cpu().numpy()
            chosen[at[block]] = CLASSIFICATION.predict(found).cpu().numpy() + 1
    return Prediction(np.array(["", *labels])[chosen], shares, labels, inputs)
