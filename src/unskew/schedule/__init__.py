"""How does a model travel through clients in a round? One line a part."""

from unskew.schedule.plain import Plain as Plain
