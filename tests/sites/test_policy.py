"""A site's policy: what it allows, in which words, and how it refuses."""

import pytest

from unskew import InputError, Method
from unskew.parts import catalogue
from unskew.sites.policy import Policy, asked_by
from unskew.sites.words import KINDS, MEANINGS, kinds_of, read_allowed

VARIANTS = ("fedprox(adaptive=true)", "sem(pairing=emd)", "ccvr(variant=features)", "fedgen(variant=latent)")


def test_every_disclosure_of_every_part_has_a_kind():
    """What `unskew methods` says can be allowed in a few words."""
    told = {what for entry in catalogue.parts().values() for what in entry.discloses}
    told |= {what for written in VARIANTS for _, what in asked_by(Method.parse(written))}
    assert {what for what in told if len(kinds_of(what)) != 1} == set()
    assert {kind for what in told for kind in kinds_of(what)} == set(KINDS) == set(MEANINGS)


@pytest.mark.parametrize(
    ("method", "part", "phrase", "allow"),
    [
        ("kld", "kld", "label counts", "label counts"),
        ("sem", "sem", "its half-trained model to another client", "half-trained models"),
        ("ccvr", "ccvr", "mean and covariance of its features, class by class", "features"),
        ("centralized", "pooled", "raw samples to the server", "raw samples"),
        ("fedfa", "fedfa", "the global model's accuracy on its data", "accuracies"),
    ],
)
def test_a_method_that_needs_more_is_refused_in_a_sentence(method, part, phrase, allow):
    """It names the part, the site, what was asked for, and what would allow it."""
    asked = asked_by(Method.parse(method))
    with pytest.raises(InputError) as refused:
        Policy(frozenset({"label counts"} - {allow})).check_method("north", asked)
    assert f"{part} asks site 'north' for {phrase}" in str(refused.value)
    assert f'--allow "{allow}"' in str(refused.value)
    Policy(frozenset({allow, "label counts"})).check_method("north", asked)


def test_nothing_is_allowed_by_default_and_model_updates_always_are():
    """A plain method passes any policy."""
    Policy().check_method("north", asked_by(Method.parse("fedprox(0.1)+fednova")))
    assert not any(Policy().allows(kind) for kind in KINDS)


def test_a_phrase_of_ones_own_is_allowed_as_it_is_written():
    """A part of one's own may disclose what no kind covers."""
    own = "the hour of its last visit"
    with pytest.raises(InputError, match="the hour of its last visit"):
        Policy().check("north", "my_part", own)
    Policy(frozenset({own}), packages=frozenset({"torch"})).check("north", "my_part", own)


def test_words_that_nobody_asks_for_are_refused():
    """A slip in --allow must not look like consent."""
    assert read_allowed("Label  counts, features") == {"label counts", "features"}
    with pytest.raises(InputError, match="cannot allow 'labels'; write one of label counts, features"):
        read_allowed("labels")
    with pytest.raises(InputError, match="cannot allow 'the counts of labels'; write one of label counts, "):
        read_allowed("the counts of labels")  # at a site that runs no code of others nobody asks for that


def test_limits_are_checked():
    """Samples, clients, rounds."""
    policy = Policy(min_samples=50, min_clients=2, max_rounds=10)
    policy.check_run("north", [], "mlp(64)", 10, 50, 2)
    with pytest.raises(InputError, match="'north' takes part with 50 samples or more, and it has 49"):
        policy.check_run("north", [], "mlp", 10, 49, 2)
    with pytest.raises(InputError, match="2 clients or more, and it has 1"):
        policy.check_run("north", [], "mlp", 10, 50, 1)
    with pytest.raises(InputError, match="11 rounds, and site 'north' allows at most 10"):
        policy.check_run("north", [], "mlp", 11, 50, 2)


def test_models_are_those_of_the_registry_and_code_must_be_named_and_installed():
    """A coordinator cannot let a site import whatever it likes."""
    Policy().check_model("north", "small_cnn")
    with pytest.raises(InputError, match="package os, which site 'north' does not allow"):
        Policy().check_model("north", "os:system")
    with pytest.raises(InputError, match="not installed at 'north'"):
        Policy(packages=frozenset({"os"})).check_model("north", "os:system")
    Policy(packages=frozenset({"torch"})).check_model("north", "torch.nn:Linear")
    with pytest.raises(InputError, match="model linear is not one that site 'north' trains; it trains mlp"):
        Policy(models=frozenset({"mlp"})).check_model("north", "linear")
    with pytest.raises(InputError, match="no model 'mpl'"):
        Policy(models=frozenset({"mpl"}))


def test_a_policy_is_read_as_it_was_written(tmp_path):
    """policy.toml says it in a form that people read and change."""
    assert Policy.read(tmp_path) == Policy()
    policy = Policy(frozenset({"features", "label counts"}), 20, 2, 100, frozenset({"mlp"}))
    policy.save(tmp_path)
    assert Policy.read(tmp_path) == policy == Policy.of(policy.as_dict())
    text = (tmp_path / "policy.toml").read_text()
    assert "features: what layers of a model make of samples" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("allow = 'label counts'", "must be a list"),
        ("allow = ['all']", "cannot allow 'all'"),
        ("rounds = 3", "no setting 'rounds'"),
        ("max_rounds = 0", "whole number from 1"),
        ("allow = [", "not valid TOML"),
    ],
)
def test_a_policy_that_cannot_be_read_stops_the_site(tmp_path, text, said):
    """Half a policy is none."""
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        Policy.read(tmp_path)
