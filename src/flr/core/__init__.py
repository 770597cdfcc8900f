"""What every room stands on: the contract of methods, stacks, the registry, arrays, seeds."""
