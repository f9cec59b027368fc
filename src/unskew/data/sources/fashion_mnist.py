"""Fashion-MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.data.download import Remote
from unskew.data.sources.idx import FILES, SPELLINGS, IdxImages
from unskew.data.sources.source import Form

_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)
_PACKED = (
    ("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26.4),
    ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 0.03),
    ("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4.4),
    ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 0.005),
)


@dataclass(frozen=True)
class FashionMnist(IdxImages):
    """Photographs of clothes in ten classes: 28x28 grey images, a harder stand-in for MNIST.

    Citation: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine
    Learning Algorithms, arXiv:1708.07747, 2017.

    Licence: MIT, Zalando SE.
    """

    name: ClassVar = "fashion_mnist"
    kind: ClassVar = "image"
    counts: ClassVar = (60_000, 10_000)
    shape: ClassVar = (1, 28, 28)
    classes: ClassVar = 10
    labels: ClassVar = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    checksums: ClassVar = (
        "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    )
    home: ClassVar = "fashion-mnist"
    forms: ClassVar = (
        Form(
            "the four IDX files, .gz or plain",
            (
                "fashion-mnist",
                "fashion_mnist",
                "FashionMNIST/raw",
                "fashion-mnist/raw",
                "fashion_mnist/raw",
                "fashion-mnist/FashionMNIST/raw",
                "fashion_mnist/FashionMNIST/raw",
                "FashionMNIST",
                ".",
            ),
            IdxImages.read_folder,
            needs=SPELLINGS,
        ),
    )
    remotes: ClassVar = tuple(
        Remote(f"{file}.gz", tuple(f"{m}{file}.gz" for m in _MIRRORS), f"sha256:{checksum}", megabytes)
        for file, (checksum, megabytes) in zip(FILES, _PACKED, strict=True)
    )
