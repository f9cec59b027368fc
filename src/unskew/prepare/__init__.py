"""What data does each client train on? One line a part."""

from unskew.prepare.fedaug import FedAug as FedAug
from unskew.prepare.oversample import Oversample as Oversample
from unskew.prepare.pooled import Pooled as Pooled
