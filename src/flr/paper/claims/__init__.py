"""What the paper claims (stated.toml, and the experiments' files), and whether our runs agree."""
