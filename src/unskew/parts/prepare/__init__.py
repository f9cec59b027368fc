"""What data does each client train on? One line a part."""

from unskew.parts.prepare.cec import Cec as Cec
from unskew.parts.prepare.central_sharing import CentralSharing as CentralSharing
from unskew.parts.prepare.daca import Daca as Daca
from unskew.parts.prepare.fed_data import FedData as FedData
from unskew.parts.prepare.fedaug import FedAug as FedAug
from unskew.parts.prepare.oversample import Oversample as Oversample
from unskew.parts.prepare.pooled import Pooled as Pooled
from unskew.parts.prepare.scc import Scc as Scc
