"""What an objective needs of whoever runs it, as one record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a part cannot do without; engines and the round read it.

    Say what differs: ``needs: ClassVar[Needs] = Needs(features=True)``. Where it depends on hyper-parameters, it is a
    ``Depends``.
    """

    features: bool = False
    """Each batch's penultimate features, which ``step.features()`` then has without another pass."""

    global_model: bool = True
    """The model that the round began with, beside the one a client trains: ``step.anchor``. A client that is handed its
    model by another client is sent this one too, and its bytes are counted."""

    global_answers: bool = False
    """That model's answers, ``net.judge(step.anchor, x)``: refused where no statistics of batch norm are kept."""

    single_models: bool = False
    """The models of single clients, in ``absorb`` or ``renew``. Otherwise an engine may bring back their sum alone."""

    plain_mean: bool = False
    """The sum of single clients' models in ``absorb``, each with the same weight, whatever they weigh in the model."""

    varying_sizes: bool = False
    """Room for rows, as ``unskew.core.exchanged_rows`` hands them out, whose number changes from round to round.
    ``batch_of`` knows how many of them count."""
