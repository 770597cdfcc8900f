"""Networks: built by name, started from pretrained weights, saved to a file, asked in batches."""
