"""Clients that mean harm: one file for each attack; what they share is in common.py."""
