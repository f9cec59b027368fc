"""What to try a part or an engine by: the battery, and an engine whose clients cannot reach each other's samples."""

from unskew.testing.checks import CHECKS as CHECKS
from unskew.testing.checks import check_method as check_method
from unskew.testing.checks import check_part as check_part
from unskew.testing.walled import Walled as Walled
