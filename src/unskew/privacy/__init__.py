"""The privacy laboratory: what a method's clients give away, measured by attacks that work for any method."""
