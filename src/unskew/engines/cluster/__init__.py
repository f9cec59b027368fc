"""Many machines: the fast engine's pieces of work carried out by actors of a Ray cluster. Ray is loaded when used."""
