"""The table of items: in one piece, sharded, or with rows made on sight."""
