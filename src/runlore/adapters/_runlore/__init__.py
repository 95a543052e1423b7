"""What the adapter for live session logs needs to read one, and not to find one."""
