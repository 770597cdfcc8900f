"""Federation -> update: what happens at a site during a task."""
