"""Real sites: other people's machines that keep their samples, reached through a carrier such as Flower.

A coordinator has a ``FederationFolder``, a site its ``SiteFolder`` with a key and a ``Policy``: what may leave it
beyond model updates. Flower carries the messages (``flower/``), and is imported only where something is carried.
"""
