"""Rounds without waiting: what stands beside Flower's programs at a site and at the server."""
