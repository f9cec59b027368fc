"""Pictures, pages and words about partitions and runs."""
