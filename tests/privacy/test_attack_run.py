"""Attacks on small runs: they find what is there, repeat by the seed, and leave everything in the run's folder."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import unskew
from unskew.cli import main
from unskew.errors import InputError
from unskew.kept import kept_rounds, read_model
from unskew.privacy import Context, Inversion, Reconstruction, attack, subject
from unskew.privacy.context import identify
from unskew.privacy.inversion import gradient_of, observed, read_labels, search
from unskew.privacy.overfitting import Group, dealt, overfitting
from unskew.privacy.reconstruction import reconstruct
from unskew.privacy.views import Averages, Features, Samples
from unskew.seeds import generator

SETTINGS = {
    "data": "digits",
    "partition": "labels(3)",
    "clients": 20,
    "cohort": 4,
    "rounds": 3,
    "epochs": 1,
    "model": "mlp(hidden=[24, 16])",
    "lr": 0.1,
    "keep": (1,),
    "progress": False,
}
QUICK = {
    "reconstruction": Reconstruction(epochs=2, samples=150, test=40),
    "context": Context(sizes=(10, 40), repeats=1, steps=20, test=40),
    "inversion": Inversion(steps=20, images=1, most=2),
    "progress": False,
}


@pytest.fixture(autouse=True)
def one_thread():
    """As commands do: small batches are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of FLea that keeps its first model and measures c."""
    path = tmp_path_factory.mktemp("runs") / "flea"
    unskew.run(method="flea(dense1, share=0.3)", out=path, measure=("correlation",), **SETTINGS)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A run of FedAvg on one step of plain SGD, which shares nothing but updates."""
    path = tmp_path_factory.mktemp("runs") / "fedavg"
    unskew.run(method="fedavg", out=path, **SETTINGS)
    return path


def test_a_run_keeps_the_models_it_was_asked_for(run):
    """Round 1 by ``keep``, round 3 as the last; any other is refused with what to write."""
    assert kept_rounds(run) == [1]
    first, last = read_model(run, 1), read_model(run)
    assert (first[0], last[0]) == (1, 3)
    assert any(not torch.equal(first[1][k], last[1][k]) for k in first[1])
    with pytest.raises(InputError, match=r"round 1, 3 but not of round 2; run it with keep = \[2\]"):
        read_model(run, 2)


def test_the_log_says_who_got_whose_features_and_their_correlation(run):
    """Nobody in the first round; then last round's clients, to this round's; c lies between 0 and 1."""
    lines = [json.loads(text) for text in (run / "rounds.jsonl").read_text().splitlines()]
    assert "exchanged" not in lines[0]
    assert all(len(line["exchanged"]["flea"]["to"]) == 4 for line in lines[1:])
    assert all(0 < line["distance_correlation"]["flea"] <= 1 for line in lines)


def test_an_attack_leaves_numbers_pictures_and_a_page(run):
    """Every section is there, for the kept model and the last; the page names what was declared."""
    made = attack(run, **QUICK)
    record = json.loads((run / "attack" / "attack.json").read_text())
    assert record == json.loads(json.dumps(made.record))
    assert record["rounds"] == [1, 3]
    assert record["exposure"]["epsilon"][-1] == len(set(_pairs(run))) / 400
    assert [told["round"] for told in record["reconstruction"]["results"]] == [1, 3]
    assert len(record["correlation"]["over_rounds"]["flea"]["c"]) == 3
    for name in ("exposure", "correlation", "reconstruction", "context", "reconstructions", "inversions"):
        assert (run / "attack" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (run / "attack" / "attack.html").read_text()
    assert "features and labels of some samples" in page
    assert not [f.name for f in (run / "attack").iterdir() if f.name.endswith(".tmp")]


def _pairs(run: Path) -> list[tuple[int, int]]:
    lines = [json.loads(text) for text in (run / "rounds.jsonl").read_text().splitlines()]
    given = [line["exchanged"]["flea"] for line in lines if "exchanged" in line]
    return [(i, j) for g in given for i in g["from"] for j in g["to"]]


def test_attacks_repeat_by_their_seed_and_touch_no_global_generator(run):
    """The same numbers twice, others from another seed, and the generators of torch, numpy and random stay."""

    def numbers(seed: int) -> float:
        found = reconstruct(
            subject(run), read_model(run)[1], Features("dense1"), QUICK["reconstruction"], seed=seed
        )
        return found.record["mse"]

    before = torch.get_rng_state().tolist(), np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002
    assert numbers(0) == numbers(0) != numbers(1)
    after = torch.get_rng_state().tolist(), np.random.get_state(legacy=False)["state"], random.getstate()  # noqa: NPY002
    assert repr(before) == repr(after)


def test_a_decoder_learns_and_beats_knowing_nothing(run):
    """Of features of the first layer digits can be rebuilt; of an average of ten hardly."""
    target = subject(run)
    model = target.model()[1]
    how = Reconstruction(epochs=8, samples=600, batch=32, lr=0.003, test=100)
    found = reconstruct(target, model, Features("dense1"), how).record
    mixed = reconstruct(target, model, Averages(10), how).record
    assert found["curve"][-1]["train_mse"] < found["curve"][0]["train_mse"]
    assert found["mse"] < 0.8 * found["blind"]["mse"]
    assert mixed["mse"] > found["mse"]
    assert reconstruct(target, model, Samples(), how).record["mse"] == 0


def test_context_is_found_with_more_examples_in_averages_too(run):
    """The square shows in averages, since every sample behind one has it; a few examples are not enough."""
    target = subject(run)
    how = Context(square=0.25, sizes=(4, 300), repeats=1, steps=120, test=150)
    few, many = identify(target, target.model()[1], Averages(5), how)["points"]
    assert many["accuracy"] > 0.9
    assert few["accuracy"] < many["accuracy"]


def test_the_square_is_painted_where_it_should_be(run):
    """A quarter of 8 pixels is a square of 2 x 2 at the largest value; what is not marked is not touched."""
    target = subject(run)
    how = Context(square=0.25, place="corner")
    groups = target.groups(np.arange(4).reshape(2, 2))
    marked = how.marked(target, groups, torch.tensor([False, True]), generator(0, "square"))
    assert torch.equal(marked[0], groups[0])
    assert torch.all(target.unit(marked[1])[:, :, 2:4, 2:4] == 1)
    assert torch.equal(marked[1][:, :, 4:], groups[1][:, :, 4:])


def test_one_step_on_one_sample_shows_its_gradient_and_its_label(plain):
    """(start - end) / lr is the gradient of that sample; the bias's one negative entry is its label (iDLG)."""
    target = subject(plain)
    base, gradient, held = observed(target, 3, alone=True)
    assert len(held) == 1
    label = torch.from_numpy(target.dataset.y[held])
    exact = gradient_of(target.setup.job.net, base, target.groups(held), label)
    for name, value in exact.items():
        assert torch.allclose(gradient[name], value.detach(), atol=1e-4)
    assert read_labels(target, base, gradient, 1).tolist() == label.tolist()


@pytest.mark.parametrize("rule", ["cosine", "dlg"])
def test_an_inverted_gradient_is_nearer_to_the_sample_than_where_the_search_began(plain, rule):
    """A dense first layer gives the sample away."""
    target = subject(plain)
    base, gradient, held = observed(target, 3, alone=True)
    label = torch.from_numpy(target.dataset.y[held])
    original = target.unit(target.groups(held))
    how = Inversion(rule=rule, steps=300, smooth=0)
    found = target.unit(search(target, base, gradient, label, how, generator(0, "start")))
    begun = target.unit(torch.from_numpy(generator(0, "start").standard_normal((1, 1, 8, 8))).float())
    assert float((found - original).square().mean()) < 0.25 * float((begun - original).square().mean())


def test_a_method_that_shares_nothing_is_judged_by_its_updates_and_by_named_views(plain):
    """Without a view: exposure and inversion only; to reconstruct from nothing is refused, saying what to name."""
    record = attack(plain, only=("exposure", "inversion"), **QUICK).record
    assert record["exposure"]["shares"] is False
    assert record["inversion"]["whole_visit"]["searched"] == 2
    with pytest.raises(InputError, match=r"fedavg shares no data .* --view 'features\(dense1\)'"):
        attack(plain, only=("reconstruction",), **QUICK)
    named = attack(plain, only=("reconstruction",), views=("features(dense2)",), **QUICK).record
    assert named["reconstruction"]["results"][0]["view"] == "features(dense2)"
    assert "inversion" in named  # what was found before stays


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "magic"], "there is no attack 'magic'"),
        (["--view", "features(conv9)"], "there is no layer 'conv9'"),
        (["--rounds", "2"], "but not of round 2; run it with keep = [2]"),
        (["--rounds", "one"], "--rounds takes whole numbers with commas"),
        (["--optimizer", "lion"], "--optimizer is adam or sgd, not 'lion'"),
    ],
)
def test_bad_input_is_one_sentence(plain, words, sentence, capsys):
    """Exit code 2, and what to write instead."""
    assert main(["attack", str(plain), *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_the_command_prints_what_was_found(plain, capsys):
    """In the terminal as sentences, or as JSON."""
    words = ["attack", str(plain), "--only", "exposure,inversion", "--steps", "3"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "fedavg"
    assert main(words) == 0
    assert "nobody was given anybody's data" in capsys.readouterr().out
    assert main(["attack", str(plain), "--draw"]) == 0
    assert "attack.html" in capsys.readouterr().out


def test_correlation_is_refused_where_nothing_is_shared():
    """A measure of what is shared needs something that is."""
    with pytest.raises(
        InputError, match="correlation measures features or samples that are shared, and fedavg"
    ):
        unskew.run(method="fedavg", measure=("correlation",), **SETTINGS)


def test_groups_of_clients_hold_as_much_of_every_class(plain):
    """Twenty samples of ten classes: two of each; shared ones are the same for all, and nobody's own."""
    target = subject(plain)
    federation = dealt(target.dataset, Group.read("20+30"), 0)
    assert federation.clients == 10
    assert set(federation.sizes.tolist()) == {50}
    own = [set(federation.samples(k)[:20].tolist()) for k in range(10)]
    assert len(set.union(*own)) == 200
    assert all(np.bincount(target.dataset.y[sorted(o)], minlength=10).tolist() == [2] * 10 for o in own)
    shared = {tuple(federation.samples(k)[20:].tolist()) for k in range(10)}
    assert len(shared) == 1
    assert not set.union(*own) & set(next(iter(shared)))


def test_overfitting_is_analysed_from_a_kept_model(plain):
    """The scores of local and averaged models, of what they saw and what not, and the pictures."""
    record = overfitting(plain, ("100", "30", "30+40"), accuracy=0.05, test=100, progress=False)
    assert [row["group"] for row in record["groups"]] == ["100", "30", "30+40"]
    assert record["groups"][1]["local"]["train_db"] > 0
    for name in ("bars.png", "tsne.png"):
        assert (plain / "overfitting" / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"no model that .* reaches an accuracy of 0.999; let it run longer"):
        overfitting(plain, accuracy=0.999, progress=False)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--samples", "samples of the reconstruction must be at least 1, not 0"),
        ("--epochs", "epochs of the reconstruction must be at least 1, not 0"),
        ("--repeats", "repeats of the context attack must be at least 1, not 0"),
        ("--steps", "steps of the inversion must be at least 1, not 0"),
    ],
)
def test_an_attacker_who_does_nothing_is_refused(run, capsys, option, sentence):
    """One sentence and exit code 2; 0 samples are not all of them."""
    assert main(["attack", str(run), option, "0"]) == 2
    assert sentence in capsys.readouterr().err
