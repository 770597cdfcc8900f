"""What the site has besides the Markdown pages; each module is a small extension of Sphinx."""
