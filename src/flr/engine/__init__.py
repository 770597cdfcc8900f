"""The federation loop, in process: workers, drop-outs, checkpoints."""
