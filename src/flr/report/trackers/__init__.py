"""Where else the numbers of a run go, a file each; `metrics.jsonl` is written in any case."""
