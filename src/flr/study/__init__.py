"""Many runs that belong together: from a file of rows and settings to cells, tables and a page."""
