"""FLea by hand: the mix, the three losses, what is shared and counted, and what is refused."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import numbers
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.slots import Batch, Local, Step
from unskew.core.step import LocalStep, LocalTraining, StepInputs
from unskew.core.types import nbytes
from unskew.errors import InputError
from unskew.metrics.distance_correlation import distance_correlation
from unskew.models import build
from unskew.parts.objective import FLea
from unskew.parts.objective.fedntd import FedNTD
from unskew.parts.objective.flea import MixedOut
from unskew.testing.toy_federation import apart, normed, other_engines, play, ready, tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*share nothing by flea")


class Two(nn.Module):
    """f = 2 x at the layer ``mid``, logits = (w f, 0)."""

    layers = ("mid",)

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.head(self.embed(x, "mid"), "mid")

    def embed(self, x, layer):
        return 2 * x

    def head(self, f, layer):
        return torch.cat([self.w * f, 0 * f], 1)


def net() -> Net:
    return Net(build(Two(), (1,), 2, dtype=torch.float64))


def step(part: FLea, x, y, shared=None, *, local=1.0, teacher=1.0, beta=0.25, t=1) -> Step:
    """One batch at the model w = ``local`` with the global model w = ``teacher``; every b is ``beta``."""
    here = net()
    name = here.trainable[0]
    count = len(x)
    draws = {"beta": torch.full((count,), beta, dtype=torch.float64)}
    draws |= {"deal": torch.tensor(5), "deal step": torch.tensor(0), "deal size": torch.tensor(count)}
    batch = Batch(numbers(*x)[:, None], torch.tensor(y), torch.ones(count, dtype=torch.float64))
    found = Step(
        here.bound({}),
        {name: torch.tensor(local, dtype=torch.float64)},
        {name: torch.tensor(teacher, dtype=torch.float64)},
        batch,
        torch.zeros(2),
        shared=part.hand_out(shared or {}, t),
        draws=draws,
    )
    found.out = part.forward(found)
    return found


def buffer(f: float, label: int) -> dict[str, torch.Tensor]:
    return {"rows": numbers(f)[:, None], "labels": torch.tensor([label]), "owner": torch.tensor([3])}


def test_features_and_labels_are_mixed_alike():
    """x = 1 of class 0 has f = 2; with f^F = 6 of class 1 and b = 1/4: f~ = 0.5 + 4.5 = 5, y~ = (1/4, 3/4)."""
    out = step(FLea("mid"), [1.0], [0], buffer(6.0, 1)).out
    assert out.own.tolist() == [[2.0]]
    assert out.given.tolist() == [[5.0]]
    assert out.target.tolist() == [[0.25, 0.75]]
    assert out.logits.tolist() == [[5.0, 0.0]]


def test_distillation_is_the_divergence_of_the_local_from_the_global_opinion():
    """At f~ = 1 with w = ln 3 here and w = 0 there: p_l = (3/4, 1/4), p_g = (1/2, 1/2).

    KL(p_l || p_g) = 3/4 ln(3/2) + 1/4 ln(1/2); one sample has no distance correlation.
    """
    part = FLea("mid", distil=2)
    at = step(part, [1.0], [0], buffer(2 / 3, 1), local=math.log(3), teacher=0.0)  # 1/4 x 2 + 3/4 x 2/3 = 1
    expected = 2 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert float(part.penalty(at)) == pytest.approx(expected)


def test_decorrelation_is_of_samples_and_unmixed_features():
    """lambda2 = 3 times c; f = 2 x is a linear map, so that c = 1 and the term is 3, whatever is mixed in."""
    part = FLea("mid", distil=0)
    assert float(part.penalty(step(part, [0.0, 1.0, 3.0], [0, 1, 0], buffer(9.0, 1)))) == pytest.approx(3)
    code = FLea("mid", distil=0, variant="code")
    # without a buffer the code's loss is CE, KL / 2 and the correlation
    assert float(code.penalty(step(code, [0.0, 1.0, 3.0], [0, 1, 0]))) == pytest.approx(29 / 30 * 3)


def test_what_it_sends_does_not_depend_on_torchs_default_type():
    """Four bytes tell the round, by which clients know lambda2, also after torch.set_default_dtype(torch.float64)."""
    sent = []
    for default in (torch.float32, torch.float64):
        torch.set_default_dtype(default)
        try:
            line = play(Method.of(FLea("last", variant="code")), rounds=1, cohort=4).lines[0]
        finally:
            torch.set_default_dtype(torch.float32)
        sent.append(line["bytes"]["down"]["flea"])
    assert sent == [4 * 4, 4 * 4]


def test_without_a_buffer_a_client_goes_on_with_its_own_features():
    """The first round: f~ = f and y~ = y; distillation and decorrelation are there already."""
    part = FLea("mid", decor=0)
    at = step(part, [0.5], [1], local=math.log(3), teacher=0.0)
    assert at.out.given.tolist() == [[1.0]]
    assert at.out.target.tolist() == [1]
    assert float(part.penalty(at)) == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))


def test_the_code_adds_the_mixed_batch_and_distils_on_shared_features():
    """x = 1/2 of class 0, one shared f^F = 1 of class 1, w = ln 3 here, 0 there, b = 1/4.

    The task's loss is that of f = 1 alone. Mixed: f~ = 1, y~ = (1/4, 3/4), CE = -1/4 ln(3/4) - 3/4 ln(1/4).
    On f^F = 1: KL(p_g || p_l) = 1/2 ln(2/3) + 1/2 ln 2.
    """
    part = FLea("mid", decor=0, variant="code")
    at = step(part, [0.5], [0], buffer(1.0, 1), local=math.log(3), teacher=0.0)
    assert at.out.target.tolist() == [0]
    mixed = -0.25 * math.log(0.75) - 0.75 * math.log(0.25)
    distilled = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert float(part.penalty(at)) == pytest.approx(mixed + distilled)


def test_the_code_cuts_the_mixed_batch_to_the_shorter():
    """Three samples and one shared feature: only the first is mixed, and distillation sees one feature."""
    part = FLea("mid", decor=0, variant="code")
    at = step(part, [0.5, 7.0, 9.0], [0, 1, 1], buffer(1.0, 1), local=math.log(3), teacher=0.0)
    mixed = -0.25 * math.log(0.75) - 0.75 * math.log(0.25)
    distilled = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert float(part.penalty(at)) == pytest.approx(mixed + distilled)


def test_the_codes_first_round_is_longer_and_its_weights_fall():
    """Three times the epochs in round 0, KL halved without a buffer; lambda2 is 3 - t/10, and 1 from round 20 on."""
    code, paper = FLea("mid", variant="code"), FLea("mid")
    assert [code.budget_factor(t) for t in (0, 1)] == [3.0, 1.0]
    assert [paper.budget_factor(t) for t in (0, 1)] == [1.0, 1.0]
    found = [float(code.falling(step(code, [0.5], [0], t=t))) for t in (0, 5, 7, 20, 60)]
    assert found == pytest.approx([3.0, 2.5, 2.3, 1.0, 1.0], rel=1e-14)  # float32 has 2.3 to 2e-8
    assert paper.hand_out({}, 0) == {}
    at = step(code, [0.5], [0], local=math.log(3), teacher=0.0)
    assert float(code.penalty(at)) == pytest.approx(0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2)))
    long, short = (play(Method.of(p), rounds=2) for p in (FLea("last", variant="code"), FLea("last")))
    spent = [[line["sample_steps"] for line in played.lines] for played in (long, short)]
    assert spent[0] == [3 * spent[1][0], spent[1][1]]


def test_the_features_are_those_of_the_new_model_and_of_last_rounds_clients_alone():
    """What the server remembers: under the model that the round ended with, floor(share x n) of each who took part."""
    method = Method.parse("flea(dense1, share=0.5)")
    played = play(method, rounds=2, cohort=3)
    held = played.state.server["flea"]
    setup = ready(method)
    data, net = setup.run.engine.holdings.federation, setup.job.net
    pool = setup.run.engine.device_data(setup.job).pool
    sizes = dict(zip(*np.unique(held["owner"].numpy(), return_counts=True), strict=True))
    assert len(sizes) == 3
    for client, count in sizes.items():
        assert count == data.sizes[client] // 2
        x, y = pool.take(torch.from_numpy(data.samples(client)))
        all_of_it = net.judge(played.state.params, x, upto="dense1")
        rows = held["rows"][held["owner"] == client]
        labels = held["labels"][held["owner"] == client]
        for row, label in zip(rows, labels, strict=True):
            place = int((all_of_it - row).abs().sum(1).argmin())
            assert torch.allclose(all_of_it[place], row)
            assert int(label) == int(y[place])


def test_which_samples_a_client_shares_never_changes():
    """Drawn once: full participation gives the same labels round after round, though the features move."""
    rounds = [
        play(Method.parse("flea(last, share=0.4)"), rounds=r, cohort=8).state.server["flea"] for r in (1, 3)
    ]
    assert rounds[0]["labels"].tolist() == rounds[1]["labels"].tolist()
    assert not torch.equal(rounds[0]["rows"], rounds[1]["rows"])


def test_the_second_download_and_every_feature_are_counted():
    """Line 15: a model more down for each who shares; 6 numbers of 8 bytes and a label of 1 up, and down next round."""
    lines = play(Method.parse("flea(last, share=0.5)"), rounds=2, cohort=3).lines
    model = lines[0]["bytes"]["up"]["model"] // 3
    assert lines[0]["bytes"]["down"] == {"model": 3 * model, "model for flea": 3 * model}
    shared = lines[0]["flea"]["shared"]
    assert lines[0]["bytes"]["up"]["flea answers"] == shared * (6 * 8 + 1)
    assert lines[1]["bytes"]["down"]["flea"] == 3 * shared * (6 * 8 + 1)
    assert "exchanged" not in lines[0]
    assert len(lines[1]["exchanged"]["flea"]["from"]) == len(lines[1]["exchanged"]["flea"]["to"]) == 3


@pytest.mark.parametrize(("store", "bytes_"), [("full", 8 * 6), ("half", 2 * 6), ("byte", 6 + 8)])
def test_smaller_features_are_fewer_bytes(store, bytes_):
    """Six numbers: of 8 bytes in float64, of 2, or of 1 with a least number and a step of 4 bytes each."""
    played = play(Method.parse(f"flea(last, share=0.5, store={store})"), rounds=2)
    held = {k: v for k, v in played.state.server["flea"].items() if k != "owner"}
    rows = played.lines[-1]["flea"]["shared"]
    assert nbytes(held) == rows * (bytes_ + 1)
    assert played.lines[-1]["bytes"]["up"]["flea answers"] == rows * (bytes_ + 1)


def test_a_stopped_run_has_its_buffer_again():
    """A kill after any round: the buffer is in the checkpoint, in whatever precision."""
    for store in ("full", "half", "byte"):
        method = Method.parse(f"flea(last, share=0.5, store={store}, variant=code)")
        whole, stopped = (play(method, rounds=3, stopped=s) for s in (False, True))
        assert whole == stopped


def test_empty_buffer_and_zero_weights_are_fedavg_to_the_last_bit():
    """Cutting a model in two and going on at once is the model, batch norm and dropout included."""
    for model in ("mlp(hidden=[6, 5])", normed):
        plain = play(Method.parse("fedavg"), model=model)
        for variant in ("paper", "code"):
            part = FLea("last", share=0, distil=0, decor=0, variant=variant)
            neutral = play(Method.of(part), model=model, rounds=3)
            if variant == "paper":
                assert neutral == plain
            else:  # but for its longer first round
                assert neutral.lines[0]["sample_steps"] == 3 * plain.lines[0]["sample_steps"]


def test_padding_reaches_no_term_of_the_loss():
    """With a filled buffer too: rows of weight 0 change neither loss, gradient nor batch statistics."""
    for variant in ("paper", "code"):
        for model, layer in (("mlp(hidden=[6])", "last"), (normed, "0"), (normed, "last")):
            method = Method.of(FLea(layer, share=0.5, variant=variant))
            memory = play(method, rounds=1, model=model).state.server["flea"]
            setup = ready(method, model=model)
            found = [_one_step(setup, method.objective[0], memory, padding) for padding in (0, 3)]
            assert apart(*found) < 1e-9


def _one_step(setup, part, memory, padding):
    job, net = setup.job, setup.job.net
    x, y = setup.run.engine.device_data(job).pool.take(torch.arange(3))
    weight = torch.cat([torch.ones(3), torch.zeros(padding)]).to(x.dtype)
    x = torch.cat([x, torch.full((padding, *x.shape[1:]), 50.0, dtype=x.dtype)])
    y = torch.cat([y, torch.zeros(padding, dtype=y.dtype)])
    params = {k: net.initial[k].clone().requires_grad_() for k in net.trainable}
    buffers = {k: net.initial[k].clone() for k in net.buffers}
    arrays = part.draw(np.random.default_rng(0), 1, 6)
    draws = {k: torch.tensor(v[0]) for k, v in arrays.items()}
    anchor = {k: v.detach() + 0.1 for k, v in params.items()} | {k: v.clone() for k, v in buffers.items()}
    of_flea = {"flea": part.hand_out(memory, 1)}, {"flea": {}}, {"flea": draws}
    inputs = StepInputs(buffers, x, y, weight, anchor, torch.zeros(3), *of_flea, torch.tensor(7))
    step = LocalStep(LocalTraining(net, (part,), Local(), 0))
    grads, value = step.gradients(params, inputs, padded=padding > 0)
    return {"loss": value} | grads | {f"statistic {k}": v for k, v in buffers.items()}


TOGETHER = (
    "sem",
    "sem(via=others)",
    "phase_shift(2)",
    "phase_shift(4)",
    "fedprox",
    "scaffold",
    "feddyn",
    "fednova",
    "fedfa",
    "fedfv",
    "full",
    "scaffold+sem",
    "fedaug(0.8)",
    "fedprox(adaptive=true)+phase_shift(2)",
    "fedlc(absent=1)",
    "fedntd",
    "moon",
    "feddecorr",
    "fedmix(group=2)",
)


@pytest.mark.slow
@pytest.mark.parametrize("other", TOGETHER)
def test_it_composes(other):
    """With every schedule, objective, rule and selection: it trains, resumes to the bit, and engines agree."""
    method = Method.parse(f"flea(last, share=0.5)+{other}")
    few = {"rounds": 3, "epochs": 1}
    whole, stopped = (play(method, stopped=s, **few) for s in (False, True))
    assert whole.hash != whole.started
    assert whole == stopped
    assert len(whole.state.server["flea"]["rows"])
    for engine in other_engines():
        found = play(method, engine=engine, **few)
        assert apart(whole.state.params, found.state.params) < 1e-9
        assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in whole.lines]


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_batch_norm_above_the_cut_agrees_between_engines(variant):
    """Several passes through a batch norm in one step: statistics and gradients are those of the loop."""
    method = Method.parse(f'flea("0", share=0.5, variant={variant})')
    whole = play(method, rounds=3, model=normed)
    for engine in other_engines():
        found = play(method, rounds=3, model=normed, engine=engine)
        assert apart(whole.state.params, found.state.params) < 1e-9


def test_a_second_pass_for_features_moves_no_statistics():
    """Without a buffer and weights FLea is not there: beside feddecorr the batch statistics are feddecorr's."""
    neutral = "flea(last, share=0, distil=0, decor=0)"
    for other in ("feddecorr(beta=0.1)", "moon"):
        alone, beside = (play(Method.parse(m), model=normed) for m in (other, f"{neutral}+{other}"))
        assert apart(alone.state.params, beside.state.params) < 1e-12


def test_a_teacher_beside_it_is_given_what_the_student_was():
    """FedNTD at the global model itself: student and teacher agree on mixed features, so nothing is lost."""
    at = step(FLea("mid"), [1.0], [0], buffer(6.0, 1), local=0.5, teacher=0.5)
    assert torch.equal(at.teacher(), at.out.logits)
    assert float(FedNTD().penalty(at)) == pytest.approx(0.0, abs=1e-7)


def test_a_loss_that_leaves_out_absent_classes_is_refused_beside_others_labels():
    """FedLC at its limit takes out classes that FLea and FedMix bring; with a finite margin it goes with both."""
    for other in ("flea(last)", "fedmix"):
        with pytest.raises(InputError, match=r"write fedlc\(absent=1\)"):
            Method.parse(f"fedlc+{other}")
        Method.parse(f"fedlc(absent=1)+{other}")
    Method.parse("fedlc+flea(last, share=0)")


def test_the_correlation_falls_with_its_weight():
    """What lambda2 is for: trained with it, features say less of their samples (c of the same batch)."""

    def c(decor: float) -> float:
        method = Method.of(FLea("dense1", share=0.5, decor=decor))
        played = play(method, rounds=8, cohort=8, epochs=4, model="mlp(hidden=[8, 8])")
        setup = ready(method, model="mlp(hidden=[8, 8])")
        job = setup.job
        x, _ = setup.run.engine.device_data(job).pool.take(torch.arange(30))
        return float(distance_correlation(x, job.net.judge(played.state.params, x, upto="dense1")))

    assert c(6) < c(0) - 0.05


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flea(last, share=1.5)", "share of flea is a share of a client's samples from 0 to 1, not 1.5"),
        ("flea(last, a=0)", "a of flea must be above 0, not 0.0"),
        ("flea(last, decor=-1)", "decor of flea must be at least 0, not -1.0"),
        ("flea(last, variant=both)", "variant of flea must be paper or code, not both"),
        (
            "flea",
            "flea lacks 'layer'; write flea(layer, share=0.1, a=2.0, distil=1.0, decor=3.0, variant=paper, store=full)",
        ),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence


def test_a_layer_that_does_not_exist_lists_those_that_do():
    """Before anything is trained."""
    with pytest.raises(InputError) as told:
        ready(Method.parse("flea(conv2)"), model="mlp(hidden=[6, 5])")
    assert (
        str(told.value)
        == "layer of flea: the model has no layer 'conv2'; write one of dense1, dense2, or last"
    )


class Whole(nn.Module):
    """A model without a place to cut: its last layer is a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 36))

    def forward(self, x):
        return x.flatten(1) @ self.scale.T


@pytest.mark.parametrize("layer", ["conv1", "last"])
def test_a_model_that_cannot_be_split_says_what_to_implement(layer):
    """Its layers, and the two halves."""
    with pytest.raises(InputError) as told:
        ready(Method.of(FLea(layer)), model=Whole())
    assert str(told.value) == (
        "Whole cannot be split: give it `layers` (the names of the places to cut, in order), `embed(x, layer)` and "
        "`head(f, layer)`, or make it an nn.Sequential"
    )


def test_a_share_that_shares_nothing_is_counted_and_warned_of():
    """Clients of 2 to 9 samples: at 0.1 nobody shares; at 0.2 those of 5 and more do."""
    with pytest.warns(
        UserWarning, match="8 of 8 clients hold fewer than 10 samples and share nothing by flea"
    ) as told:
        ready(Method.parse("flea(last)"))
    assert "nothing is shared at all: write a larger share" in str(told[0].message)
    with pytest.warns(UserWarning, match=r"3 of 8 clients hold fewer than 5 samples and share nothing"):
        played = play(Method.parse("flea(last, share=0.2)"), rounds=1, cohort=8)
    assert played.lines[0]["flea"] == {"shared": 5, "silent": 3}
    assert (
        played.lines[0]["bytes"]["down"]["model for flea"] * 8
        == 5 * played.lines[0]["bytes"]["down"]["model"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready(Method.parse("flea(last, share=0)"))


def test_who_shares_nothing_discloses_nothing():
    """Without a share there are no features to declare or to attack; in a byte each they are seen in a byte each."""
    assert FLea("conv1", share=0).discloses == ()
    assert FLea("conv1", share=0).sends == ""
    assert FLea("conv1", store="byte").sends == 'features("conv1", byte)'


def test_it_says_whose_features_it_shows():
    """For the privacy laboratory: the view of a client's data, and its owners."""
    part = FLea("conv2")
    assert part.sends == 'features("conv2")'
    assert part.givers(buffer(1.0, 0), 10).tolist() == [3]
    assert isinstance(step(FLea("mid"), [1.0], [0]).out, MixedOut)
    assert tiny().clients == 8
