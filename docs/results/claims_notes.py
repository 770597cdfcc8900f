"""What was found when a claim that fails, or is not decided, was looked into."""

from __future__ import annotations

NOTES: dict[str, str] = {}
