"""The same methods on Flower: its nodes and server carry them, nothing of transport is ours."""
