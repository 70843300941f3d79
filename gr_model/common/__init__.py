"""What every room may use: errors, files, random draws, and where the process runs."""
