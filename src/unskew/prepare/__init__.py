"""What data does each client train on? One line a part."""

from unskew.prepare.pooled import Pooled as Pooled
