"""Partitions: who holds what. Every family ends in bounded time, conserves samples, is fixed by its seed."""

from unskew.data.partition.by import By
from unskew.data.partition.dirichlet import Dirichlet
from unskew.data.partition.dirichlet_client import DirichletClient
from unskew.data.partition.emd import Emd
from unskew.data.partition.expected import ClassPool, Expected
from unskew.data.partition.family import FAMILIES, Family, PartitionTask, build_family
from unskew.data.partition.labels import Labels, Shards
from unskew.data.partition.limit_labels import LimitLabels
from unskew.data.partition.make import partition
from unskew.data.partition.mixed import Mixed
from unskew.data.partition.niid_labels import NiidLabels
from unskew.data.partition.presets import PRESETS, Preset
from unskew.data.partition.q import LimitLabelsQ, Q
from unskew.data.partition.result import Partition
from unskew.data.partition.scarcity import Scarce, solve_scarcity
from unskew.data.partition.solve import expected_emd, reach, solutions
from unskew.data.partition.uniform import Iid, Quantity

FAMILIES.update(
    (cls.name, cls)
    for cls in (
        Iid,
        LimitLabels,
        Q,
        LimitLabelsQ,
        Dirichlet,
        DirichletClient,
        Emd,
        Labels,
        Shards,
        NiidLabels,
        Mixed,
        Quantity,
        By,
    )
)

__all__ = [
    "FAMILIES",
    "PRESETS",
    "By",
    "ClassPool",
    "Dirichlet",
    "DirichletClient",
    "Emd",
    "Expected",
    "Family",
    "Iid",
    "Labels",
    "LimitLabels",
    "LimitLabelsQ",
    "Mixed",
    "NiidLabels",
    "Partition",
    "PartitionTask",
    "Preset",
    "Q",
    "Quantity",
    "Scarce",
    "Shards",
    "build_family",
    "expected_emd",
    "partition",
    "reach",
    "solutions",
    "solve_scarcity",
]
