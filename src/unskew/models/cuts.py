"""Where a model may be cut: the same of one that is drawn and of one that is made."""

from __future__ import annotations

from unskew.errors import InputError, unknown


class Cuttable:
    """Has places to cut, in order, in ``layers``."""

    layers: tuple[str, ...] = ()

    @property
    def last_layer(self) -> str:
        """The layer of the penultimate feature."""
        if not self.layers:
            raise self.unsplit()
        return self.layers[-1]

    def place(self, layer: str | None) -> int:
        """How many layers lie at or below this one; 0 for None."""
        if layer is None:
            return 0
        if not self.layers:
            raise self.unsplit()
        if layer not in self.layers:
            raise unknown("layer", layer, self.layers)
        return self.layers.index(layer) + 1

    def span(self, since: str | None, upto: str | None) -> tuple[int, int | None]:
        """The half-open range of layers to run; an end of None runs to the logits."""
        start, end = self.place(since), self.place(upto) if upto is not None else None
        if end is not None and end < start:
            raise InputError(f"the layer {upto!r} comes before {since!r}; swap since and upto")
        return start, end

    def unsplit(self) -> InputError:
        return InputError(
            f"{type(self).__name__} cannot be split: give it `layers` (the names of the places to cut, in "
            "order), `embed(x, layer)` and `head(f, layer)`"
        )
