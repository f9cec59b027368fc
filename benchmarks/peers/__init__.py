"""Adapters to other federated-learning libraries: each runs in an environment of its own."""
