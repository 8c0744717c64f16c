"""What the paper takes as given: a browser, tasks with their evaluators, and the bundled sites (PocketArena)."""
