"""How do updates become the next model? One line a part."""

from unskew.aggregate.fedavg import FedAvg as FedAvg
