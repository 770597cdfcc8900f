"""The paper's experiments: each table and figure from a file in paper/experiments."""
