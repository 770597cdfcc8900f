"""A real Flower federation on this machine: SuperLink, SuperNodes and a run, on loopback."""
