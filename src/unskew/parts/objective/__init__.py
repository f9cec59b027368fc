"""What does a client minimise? One line a part."""

from unskew.parts.objective.balanced import Balanced as Balanced
from unskew.parts.objective.fedbr import FedBR as FedBR
from unskew.parts.objective.feddecorr import FedDecorr as FedDecorr
from unskew.parts.objective.feddyn import FedDyn as FedDyn
from unskew.parts.objective.fedgen import FedGen as FedGen
from unskew.parts.objective.fedlc import FedLC as FedLC
from unskew.parts.objective.fedmix import FedMix as FedMix
from unskew.parts.objective.fedntd import FedNTD as FedNTD
from unskew.parts.objective.fedprox import FedProx as FedProx
from unskew.parts.objective.fedrs import FedRS as FedRS
from unskew.parts.objective.flea import FLea as FLea
from unskew.parts.objective.moon import MOON as MOON
from unskew.parts.objective.scaffold import Scaffold as Scaffold
