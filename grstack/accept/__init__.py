"""`inv accept`: all that can be tried on a machine with real devices, and one report to send back."""
