"""File formats: tables, images, pickles (read without executing anything), human labels."""
