"""Who takes part this round? One line a part."""

from unskew.select.full import Full as Full
from unskew.select.kld import KLD as KLD
from unskew.select.uniform import Uniform as Uniform
