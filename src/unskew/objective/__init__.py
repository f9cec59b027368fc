"""What does a client minimise? One line a part."""

from unskew.objective.balanced import Balanced as Balanced
from unskew.objective.fedbr import FedBR as FedBR
from unskew.objective.feddecorr import FedDecorr as FedDecorr
from unskew.objective.feddyn import FedDyn as FedDyn
from unskew.objective.fedgen import FedGen as FedGen
from unskew.objective.fedlc import FedLC as FedLC
from unskew.objective.fedmix import FedMix as FedMix
from unskew.objective.fedntd import FedNTD as FedNTD
from unskew.objective.fedprox import FedProx as FedProx
from unskew.objective.fedrs import FedRS as FedRS
from unskew.objective.flea import FLea as FLea
from unskew.objective.moon import MOON as MOON
from unskew.objective.scaffold import Scaffold as Scaffold
