"""A site's agent: the one process that reads its data and trains; code of an app bundle asks it."""
