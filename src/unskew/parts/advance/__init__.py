"""How far does the server step along the change? One line a part."""

from unskew.parts.advance.fedadagrad import FedAdagrad as FedAdagrad
from unskew.parts.advance.fedadam import FedAdam as FedAdam
from unskew.parts.advance.fedavgm import FedAvgM as FedAvgM
from unskew.parts.advance.fedyogi import FedYogi as FedYogi
from unskew.parts.advance.server_sgd import ServerSGD as ServerSGD
