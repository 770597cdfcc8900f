"""One file for each method, each reads like its paper."""
