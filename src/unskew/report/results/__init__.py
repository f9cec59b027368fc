"""Runs beside one another: read, grouped over seeds, compared, drawn and written."""
