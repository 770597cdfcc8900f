"""Which labels are wrong, and how: one file for each noise; what they share is in common.py."""
