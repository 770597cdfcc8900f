"""A whole federation in this process: from a config to a finished run folder, and back."""
