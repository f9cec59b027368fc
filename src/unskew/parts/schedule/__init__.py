"""How does a model travel through clients in a round? One line a part."""

from unskew.parts.schedule.alone import Alone as Alone
from unskew.parts.schedule.phase_shift import PhaseShift as PhaseShift
from unskew.parts.schedule.plain import Plain as Plain
from unskew.parts.schedule.sem import SEM as SEM
