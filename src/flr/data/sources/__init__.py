"""Data sets by name, one file each: digits, your own files and texts, CIFAR, MNIST, VADER, ..."""
