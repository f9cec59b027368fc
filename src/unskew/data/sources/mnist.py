"""MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.data.download import Remote
from unskew.data.sources.idx import FILES, SPELLINGS, IdxImages
from unskew.data.sources.source import Form

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_PACKED = (
    ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9.9),
    ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 0.03),
    ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1.6),
    ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 0.005),
)


@dataclass(frozen=True)
class Mnist(IdxImages):
    """Handwritten digits 0 to 9: 28x28 grey images.

    Citation: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-Based Learning Applied to Document
    Recognition, Proceedings of the IEEE 86(11), 1998.

    Licence: CC BY-SA 3.0, as commonly given.
    """

    name: ClassVar = "mnist"
    kind: ClassVar = "image"
    counts: ClassVar = (60_000, 10_000)
    shape: ClassVar = (1, 28, 28)
    classes: ClassVar = 10
    labels: ClassVar = tuple("0123456789")
    checksums: ClassVar = (
        "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    )
    home: ClassVar = "mnist"
    forms: ClassVar = (
        Form(
            "the four IDX files, .gz or plain",
            ("mnist", "MNIST/raw", "mnist/raw", "mnist/MNIST/raw", "MNIST", "."),
            IdxImages.read_folder,
            needs=SPELLINGS,
        ),
    )
    remotes: ClassVar = tuple(
        Remote(f"{file}.gz", tuple(f"{m}{file}.gz" for m in _MIRRORS), f"sha256:{checksum}", megabytes)
        for file, (checksum, megabytes) in zip(FILES, _PACKED, strict=True)
    )
