"""What is done to a copy of the model before it is judged? One line a part."""

from unskew.parts.calibrate.ccvr import CCVR as CCVR
