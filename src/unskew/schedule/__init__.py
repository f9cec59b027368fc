"""How does a model travel through clients in a round? One line a part."""

from unskew.schedule.alone import Alone as Alone
from unskew.schedule.phase_shift import PhaseShift as PhaseShift
from unskew.schedule.plain import Plain as Plain
from unskew.schedule.sem import SEM as SEM
