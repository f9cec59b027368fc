"""Exhibits of the papers: what makes their figures and tables again."""
