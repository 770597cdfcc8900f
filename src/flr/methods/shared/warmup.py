"""Warm-ups: rounds of plain training before a method begins."""

from __future__ import annotations


def endless_warmup(warmup_rounds: int | None, rounds: int, default: str) -> list[str]:
    """Why a warm-up cannot be that long, for `Method.check`; empty if it can."""
    if (warmup_rounds or 0) < rounds:
        return []
    return [
        f"warmup_rounds = {warmup_rounds} with rounds = {rounds}: the warm-up would never end. "
        f"Lower warmup_rounds, or leave it out for {default} of the rounds"
    ]
