"""The page and the pictures of an attack."""
