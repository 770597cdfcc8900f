"""Who holds which samples: one file for each partition; what they share is in common.py."""
