"""Speed and scale, never in a timed test."""
