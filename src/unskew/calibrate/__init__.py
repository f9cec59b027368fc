"""What is done to a copy of the model before it is judged? One line a part."""

from unskew.calibrate.ccvr import CCVR as CCVR
