"""What a message of flr is called inside: names that also those need who load no torch."""

SCHEMA = 1  # of notes; a site refuses a server that speaks another one

ARRAYS, NOTE = "arrays", "note"  # names of the records in a message
VERSION, TEXT = "schema", "json"  # keys of the note
