"""Data set -> federation: who holds which sample, and which labels are wrong."""
