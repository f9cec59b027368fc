"""How do updates become one change? One line a part."""

from unskew.parts.aggregate.fedavg import FedAvg as FedAvg
from unskew.parts.aggregate.fedfa import FedFA as FedFA
from unskew.parts.aggregate.fedfv import FedFV as FedFV
from unskew.parts.aggregate.fednova import FedNova as FedNova
