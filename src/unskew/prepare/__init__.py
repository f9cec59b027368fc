"""What data does each client train on? One line a part."""

from unskew.prepare.cec import Cec as Cec
from unskew.prepare.central_sharing import CentralSharing as CentralSharing
from unskew.prepare.daca import Daca as Daca
from unskew.prepare.fed_data import FedData as FedData
from unskew.prepare.fedaug import FedAug as FedAug
from unskew.prepare.oversample import Oversample as Oversample
from unskew.prepare.pooled import Pooled as Pooled
from unskew.prepare.scc import Scc as Scc
