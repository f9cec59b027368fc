"""The settings of a run as keywords, so that type checkers and editors know them: a misspelt one is a type error.

They are the fields of ``Spec``, and a test holds them to it. ``Settings`` annotates a dictionary that is passed on:

    settings: unskew.Settings = {"partition": "dirichlet(0.1)", "rounds": 5}
    unskew.run(dataset="digits", **settings)
"""

from __future__ import annotations

from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Every setting but those that ``run`` also takes as objects: ``dataset``, ``method``, ``model``, ``metrics``."""

    data_folder: str | None
    label: str | None
    client: str | None
    features: tuple[str, ...] | list[str]
    drop_columns: tuple[str, ...] | list[str]
    impute: Literal["median", "most_frequent", "drop"] | None
    fit: Literal["all", "client"]
    test_column: str | None
    partition: str
    by: str | None
    clients: int | None
    fraction: float
    samples_per_client: int | None
    min_samples: int
    emd: float | None
    partition_seed: int | None
    client_test: float | None
    validation: float | None
    validation_of: Literal["all", "client"]
    method_label: str | None
    rounds: int
    cohort: int | float
    epochs: float | None
    steps: int | None
    batch: int
    lr: float
    optimizer: Literal["sgd", "adam"]
    momentum: float
    nesterov: bool
    weight_decay: float
    decay: str
    clip: float | None
    last: Literal["keep", "drop", "wrap"]
    crop: int
    flip: bool
    pixels: Literal["standard", "unit"]
    batch_norm: Literal["average", "local", "drop"]
    network: str | None
    drop: float
    late: float
    nan: float
    evaluate: int
    evaluate_clients: bool
    target: tuple[float, ...] | list[float]
    stop: str | None
    patience: int | None
    budget: str | None
    measure: tuple[str, ...] | list[str]
    keep: tuple[int, ...] | list[int]
    seed: int
    engine: Literal["auto", "fast", "loop", "ray"]
    sites: str | None
    deadline: float
    device: str
    ray: str | None
    workers: int | None
    block: int | None
    compile: bool
    precision: Literal["fp32", "tf32", "bf16", "fp64"]
    checkpoint: float


class AllSettings(Settings, total=False):
    """Every setting of a run, as ``sweep`` takes them and ``Spec.as_dict`` gives them."""

    dataset: str
    method: str
    model: str
    metrics: tuple[str, ...] | list[str]


class Renewed(TypedDict, total=False):
    """What a resume may be given anew, beside ``dataset`` and ``metrics``: its end, and what cannot change a number."""

    rounds: int
    stop: str | None
    patience: int | None
    budget: str | None
    ray: str | None
    workers: int | None
    sites: str | None
    deadline: float
    device: str
    checkpoint: float
    data_folder: str | None
    partition: str
    target: tuple[float, ...] | list[float]
    keep: tuple[int, ...] | list[int]
    method_label: str | None
