"""What the adapter for live session logs needs to read one, and not to find one: imported when there is something to read."""
