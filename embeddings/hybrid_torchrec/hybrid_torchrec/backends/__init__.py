"""What a table does on its device: base (the interface), torch (any device), cpu, npu and cuda."""
