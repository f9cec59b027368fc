"""What does a client minimise? One line a part."""
