"""Real sites: other people's machines that keep their samples, reached through a carrier such as Flower."""
