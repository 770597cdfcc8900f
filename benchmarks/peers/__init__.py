"""Adapters: each makes another engine train a prepared workload, in an environment of its own."""
