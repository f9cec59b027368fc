"""The papers' own splits by name: ``partition(data, "daca")``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """An expression with the number of clients its paper uses, which ``clients=`` overrides."""

    expression: str
    clients: int
    source: str


PRESETS: dict[str, Preset] = {
    "seol_kim_1": Preset("labels(1)", 200, "Seol & Kim, case 1: every client one class (CIFAR-10)"),
    "seol_kim_2": Preset(
        "mixed(labels(1), dirichlet_client(0.2), share=0.9)",
        200,
        "Seol & Kim, case 2: 180 clients one class, 20 mixed (CIFAR-10)",
    ),
    "seol_kim_3": Preset("dirichlet_client(0.2)", 100, "Seol & Kim, case 3: all clients mixed (CIFAR-10)"),
    "seol_kim_4": Preset("labels(1)", 200, "Seol & Kim, case 4: every client one class (MNIST)"),
    "daca": Preset(
        "mixed(labels(1), iid, share=0.95)",
        100,
        "DACA, section IV-A: 95 users one class, 5 users all (MNIST)",
    ),
    "thesis_1": Preset("limit_labels(1, 0.78)", 20, "Thesis, table 4.3: EMD 1.4 by one class a client"),
    "thesis_2": Preset("limit_labels(2, 0.88)", 20, "Thesis, table 4.3: EMD 1.4 by two (0.86 is a misprint)"),
    "thesis_3": Preset(
        "limit_labels(3, 1.0, at_least=1)",
        20,
        "Thesis, table 4.3: EMD 1.4 by three, one sample of each class",
    ),
    "niid_dir": Preset(
        "dirichlet(0.5, cap=true)",
        10,
        "NIID-Bench, 4.1: Dirichlet(0.5) with a cap; write min_samples = 10 too",
    ),
    "niid_1": Preset("niid_labels(1)", 10, "NIID-Bench, 4.1: #C = 1"),
    "niid_2": Preset("niid_labels(2)", 10, "NIID-Bench, 4.1: #C = 2"),
    "niid_3": Preset("niid_labels(3)", 10, "NIID-Bench, 4.1: #C = 3"),
}
