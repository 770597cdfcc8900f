"""Data sets as tensors: readers, batches, augmentation."""
