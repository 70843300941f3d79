"""The machine under a training: device, processes, memory, signals."""
