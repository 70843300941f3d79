"""`inv evidence`: which committed results are older than their sources, and the commands that renew them."""
