"""From settings to a finished run folder: spec, set-up, the loop over rounds, checkpoints, sweeps."""
