"""Layers of stacked clients on a GPU, one kernel for all of them, and what surrounds them in a step.

``programs`` and ``step_programs`` are the kernels, in Triton; beside them is what launches each, with its gradient.
What a model calls is in ``unskew.models.stacked_layers``.
"""
