"""Who takes part this round? One line a part."""

from unskew.parts.select.full import Full as Full
from unskew.parts.select.kld import KLD as KLD
from unskew.parts.select.uniform import Uniform as Uniform
