"""What is behind pages of results/ that are no part of the paper; see each module for its use."""
