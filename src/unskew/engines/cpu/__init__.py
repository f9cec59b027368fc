"""The fast engine on a CPU: worker processes and recorded steps."""
