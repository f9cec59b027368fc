"""What does a client minimise? One line a part."""

from unskew.objective.feddyn import FedDyn as FedDyn
from unskew.objective.fedprox import FedProx as FedProx
from unskew.objective.scaffold import Scaffold as Scaffold
