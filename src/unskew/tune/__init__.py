"""With which local settings? One line a part."""

from unskew.tune.dynamic import Dynamic as Dynamic
