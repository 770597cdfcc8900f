"""Mathematics that several methods use: soft labels, selection, mixtures, network copies."""
