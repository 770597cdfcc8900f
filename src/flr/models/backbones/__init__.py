"""Pretrained networks that turn images and texts into features: one file for each family."""
