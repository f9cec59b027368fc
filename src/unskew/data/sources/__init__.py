"""The data sets that have a name: one file each, one line here."""

from unskew.data.sources.cifar10 import Cifar10
from unskew.data.sources.cifar100 import Cifar100
from unskew.data.sources.digits import Digits
from unskew.data.sources.fashion_mnist import FashionMnist
from unskew.data.sources.fsdd import Fsdd
from unskew.data.sources.mnist import Mnist
from unskew.data.sources.source import Form, Source, about
from unskew.data.sources.uci_har import UciHar
from unskew.data.sources.urbansound8k import UrbanSound8K

SOURCES: dict[str, type[Source]] = {
    source.name: source
    for source in (Digits, Mnist, FashionMnist, Cifar10, Cifar100, UciHar, UrbanSound8K, Fsdd)
}

__all__ = ["SOURCES", "Form", "Source", "about"]
