"""With which local settings? One line a part."""
