"""How do updates become the next model? One line a part."""

from unskew.aggregate.fedavg import FedAvg as FedAvg
from unskew.aggregate.fedfa import FedFA as FedFA
from unskew.aggregate.fedfv import FedFV as FedFV
from unskew.aggregate.fednova import FedNova as FedNova
