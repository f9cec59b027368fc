"""What this machine has: cores and memory."""
