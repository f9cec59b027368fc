"""The fast engine on a GPU: stacked clients and CUDA graphs."""
