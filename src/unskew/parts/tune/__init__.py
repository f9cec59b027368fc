"""With which local settings? One line a part."""

from unskew.parts.tune.dynamic import Dynamic as Dynamic
