"""Data sets by name, one file each: digits, your own files, CIFAR, MNIST, Clothing1M."""
