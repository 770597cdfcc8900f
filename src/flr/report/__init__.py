"""Run -> words, tables and pictures."""
