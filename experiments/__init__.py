"""One script per table or figure of the paper, and those that make what the project ships."""
