"""Features of others mixed into one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unskew.core import conditions
from unskew.core.conditions import enforce, planned
from unskew.core.exchanged_rows import (
    Store,
    batch_of,
    deal_rows,
    gather_rows,
    hand_out_rows,
    owners,
    restore_rows,
    store_labels,
    store_rows,
)
from unskew.core.roster import Roster
from unskew.core.slots import After, Depends, Exchange, Needs, Out, Step
from unskew.core.task import soft_labels
from unskew.core.types import Ids, Memory, Tree
from unskew.errors import InputError
from unskew.later import torch
from unskew.metrics.distance_correlation import distance_correlation
from unskew.seeds import generator

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.models.cuts import Cuttable
    from unskew.models.outline import Outline

FEATURES = ("features and labels of some samples to the next round's clients",)


@dataclass
class MixedOut(Out):
    """A forward pass through the cut: the client's own features there, beside what went on from it."""

    own: Tensor = field(kw_only=True)


@dataclass(frozen=True)
class FLea(Exchange):
    """Trains on features mixed with those that last round's clients shared (Xia et al., FLea, KDD 2024).

    The model is cut at a layer. A client mixes its own features f there with shared ones, f~ = b f + (1 - b) f^F and y~
    = b y + (1 - b) y^F, with b ~ Beta(a, a) for every sample (eq. 2). It minimises L = L_clf + lambda1 L_dis + lambda2
    L_dec (eq. 6): the cross-entropy of f~ (eq. 3), KL(p_local || p_global) on f~ (eq. 4), and the distance correlation
    of samples and features in its squared form (eq. 8; eq. 5 prints the denominator wrongly).

    After the round, those who took part are sent the new model (algorithm 1, line 15: a second download). They share
    the features, under it, of a fixed share of their samples. The server keeps those of one round. Without shared
    features, in the first round, a client goes on with its own.

    layer: where to cut, a name of the model's ``layers``; ``last`` is what its classifier sees.
    share: alpha; a client shares floor(alpha n) features. a: of the Beta distribution. distil, decor: lambda1, lambda2.
    store: a shared number takes as many bytes as the run's own (full: 4), two (half) or one (byte).
    variant: ``code`` follows the authors' repository (XTxiatong/FLea) where it differs:
    - cross-entropy also on the unmixed batch; the mixed batch is as short as the shorter of client's and buffer's;
    - KL(p_global || p_local), on unmixed shared features;
    - the root of the correlation, with lambda2 falling to a third over 20 rounds (3 to 1);
    - samples to share drawn with replacement;
    - a first round of three times the epochs, with lambda1 halved.
    Its learning rates, its new Adam in every step and its data are settings of a run.

    Left open, and taken: which samples are shared is drawn once, as in the code. The teacher judges in evaluation mode,
    as in the code, and is a constant in the gradient. Whoever's update landed shares, so under Phase-shift it is those
    who finish. A client of fewer than 1/alpha samples shares nothing, and the log counts it.

    Where clients hold few classes, the printed loss with the paper's lambda2 = 3 empties the features
    (docs/methods/flea.md, what decor=3 does); ``variant=code`` or ``decor=0.3`` do not.
    """

    name: ClassVar[str] = "flea"
    needs: ClassVar[Needs] = Needs(global_answers=True, varying_sizes=True)
    paper: ClassVar[str] = "Xia et al., KDD 2024"
    neutral: ClassVar[str | None] = "flea(last, share=0, distil=0, decor=0)"
    example: ClassVar[str | None] = "flea(last, share=0.5)"
    questions: ClassVar[tuple[str, ...]] = ("features",)
    discloses: ClassVar[Any] = Depends(FEATURES, lambda part: FEATURES if part.share else ())

    layer: str
    share: float = 0.1
    a: float = 2.0
    distil: float = 1.0
    decor: float = 3.0
    variant: Literal["paper", "code"] = "paper"
    store: Store = "full"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InputError(f"share of flea is a share of a client's samples from 0 to 1, not {self.share}")
        if self.a <= 0:
            raise InputError(f"a of flea must be above 0, not {self.a}")
        for name in ("distil", "decor"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} of flea must be at least 0, not {getattr(self, name)}")

    @property
    def others_labels(self) -> bool:
        return self.share > 0

    @property
    def sends(self) -> str:
        form = "" if self.store == "full" else f", {self.store}"
        return f'features("{self.layer}"{form})' if self.share else ""

    def check(self, roster: Roster, cohort: int) -> None:
        enforce(conditions.flea(planned(roster, cohort), self.share))

    def shared_by(self, sizes: Any) -> Ids:
        """How many features clients of these sizes share."""
        return np.floor(self.share * np.asarray(sizes) + 1e-9).astype(np.int64)

    def cut(self, net: Net) -> str:
        """The layer's name in this model."""
        return self._layer_of(net.training)

    def _layer_of(self, model: Cuttable) -> str:
        layers = model.layers
        if self.layer == "last" and "last" not in layers:
            return model.last_layer
        if layers and self.layer not in layers:
            raise InputError(
                f"layer of flea: the model has no layer {self.layer!r}; write one of {', '.join(layers)}, or last"
            )
        model.place(self.layer)  # refuses, in a sentence, a model that cannot be split
        return self.layer

    def check_model(self, model: Outline) -> None:
        self._layer_of(model.cuts)

    # --- a client

    def budget_factor(self, t: int) -> float:
        return 3.0 if self.variant == "code" and t == 0 else 1.0

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray[Any, Any]]:
        return {"beta": rng.beta(self.a, self.a, (steps, batch)), **deal_rows(rng, steps, batch)}

    def forward(self, step: Step) -> MixedOut:
        net, layer, batch = step.net, self.cut(step.net), step.batch
        own = net.embed(step.params, batch.x, layer)
        if self.variant == "code" and "rows" in step.shared:
            # of several passes through a batch norm in one step all must weigh, or none: torch's kernel keeps the
            # running averages for its gradient, and they must not move before that
            net = net.weighing(batch.weight)
        if self.variant == "code" or "rows" not in step.shared:
            return MixedOut(net.head(step.params, own, layer), batch.y, None, own, layer, own=own)
        index, _ = batch_of(step.shared, step.draws, len(batch.x))
        mixed, target = self._mixed(step, own, index)
        return MixedOut(net.head(step.params, mixed, layer), target, None, mixed, layer, own=own)

    def _mixed(self, step: Step, own: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Features and labels of eq. 2."""
        classes = own.new_zeros(1, step.census.shape[-1])
        beta = step.draws["beta"][: len(own)].to(own.dtype)
        mine, theirs = (soft_labels(y, classes) for y in (step.batch.y, step.shared["labels"][index]))
        wide = beta.reshape(-1, *[1] * (own.dim() - 1))
        features = wide * own + (1 - wide) * restore_rows(step.shared, index, own.dtype)
        return features, beta[:, None] * mine + (1 - beta[:, None]) * theirs

    def penalty(self, step: Step) -> Tensor | float:
        assert isinstance(step.out, MixedOut)
        extra: Tensor | float = 0.0
        if self.variant == "code":
            extra = self._of_the_code(step, step.out)
        elif self.distil:
            local, teacher = step.out.logits.log_softmax(1), step.teacher().log_softmax(1)
            extra = self.distil * step.batch.mean((local.exp() * (local - teacher)).sum(1))  # eq. 4
        if self.decor:
            batch = step.batch
            found = distance_correlation(batch.x, step.out.own, batch.weight, squared=self.variant == "paper")
            weight = self.falling(step).to(found) if self.variant == "code" else self.decor
            extra = extra + weight * found  # eq. 8
        return extra

    def falling(self, step: Step) -> Tensor:
        """lambda2 of the code in this round, in float64; a run rounds it to what it computes in."""
        return self.decor * (1 - step.shared["round"].to(torch.float64) / 30).clamp_min(1 / 3)

    def _of_the_code(self, step: Step, out: MixedOut) -> Tensor | float:
        """Cross-entropy of the mixed batch, and distillation on the shared one."""
        if "rows" not in step.shared:
            teacher = step.teacher().log_softmax(1)
            rows = (teacher.exp() * (teacher - out.logits.log_softmax(1))).sum(1)
            return self.distil / 2 * step.batch.mean(rows) if self.distil else 0.0
        net, layer, batch = step.net, self.cut(step.net), step.batch
        index, there = batch_of(step.shared, step.draws, step.draws["beta"].shape[-1])
        own = len(out.own)
        mixed, target = self._mixed(step, out.own, index[:own])
        shorter = batch.weight * there[:own]
        logits = net.for_rows(shorter).weighing(shorter).head(step.params, mixed, layer)
        extra = net.task.loss(logits, target, shorter)
        if self.distil:
            theirs = restore_rows(step.shared, index, out.own.dtype)
            # a client that only waits for others to finish must not move its statistics
            weight = (there & (batch.weight.sum() > 0)).to(theirs.dtype)
            local = net.for_rows(weight).weighing(weight).head(step.params, theirs, layer).log_softmax(1)
            teacher = self._teacher(step, theirs)
            rows = (teacher.exp() * (teacher - local)).sum(1)
            extra = extra + self.distil * (rows * weight).sum() / weight.sum().clamp_min(1.0)
        return extra

    def _teacher(self, step: Step, features: Tensor) -> Tensor:
        """The global model's log-probabilities from the cut on."""
        return step.net.judge(step.anchor, features.detach(), since=self.cut(step.net)).log_softmax(1)

    def features(self, client: ClientView, layer: str, seed: int) -> Tree:
        """Of a fixed share of its samples, under the model that came along; of no other layer than was agreed on."""
        if layer != self.cut(client.trained):
            raise InputError(
                f"flea was asked for features of {layer}, and its layer is {self.cut(client.trained)}"
            )
        rng = generator(seed, "flea", "shared", client.client)
        chosen = rng.choice(len(client), int(self.shared_by(len(client))), replace=self.variant == "code")
        index = torch.from_numpy(np.sort(chosen))
        shown = client.embed(layer, index)
        labels = store_labels(client.labels[index.to(client.device)], client.classes)
        return {**store_rows(shown, self.store), "labels": labels}

    # --- the server

    def hand_out(self, memory: Memory, t: int) -> Tree:
        buffer = hand_out_rows(memory)
        if self.variant == "code" and self.decor:
            buffer["round"] = torch.tensor(t, dtype=torch.int32)  # by which a client knows lambda2
        return buffer

    def renew(self, memory: Memory, after: After) -> Memory:
        """Algorithm 1, lines 14 to 18."""
        if not self.share:
            return memory
        asked = np.unique(after.landed.clients)
        counts = self.shared_by(after.roster.sizes[asked])
        givers = asked[counts > 0].tolist()
        answers = after.query(self, "features", givers, layer=self.cut(after.net), seed=after.seed)
        after.note(flea={"shared": int(counts.sum()), "silent": len(asked) - len(givers)})
        return gather_rows(answers, givers)

    def givers(self, memory: Memory, clients: int) -> Ids:
        return owners(memory)
