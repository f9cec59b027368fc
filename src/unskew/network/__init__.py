"""How clients and the server are linked, and how long what they send is on the air. One line a network."""

from __future__ import annotations

from unskew.expression import build
from unskew.network.closeness import random_closeness as random_closeness
from unskew.network.wireless import Wireless as Wireless
from unskew.network.wireless import mean_rate as mean_rate
from unskew.network.wireless import multicast_delay as multicast_delay
from unskew.network.wireless import rate as rate

NETWORKS: dict[str, type[Wireless]] = {n.name: n for n in (Wireless,)}
"""Every network by name."""


def network_of(expression: str) -> Wireless:
    """The network that an expression such as ``wireless(snr=10)`` names."""
    return build(expression, NETWORKS, "network")
