"""`flr bench`: the engine against a bare PyTorch loop and other engines, on the same work."""
