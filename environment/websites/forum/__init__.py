"""A discussion site: forums, posts, comments, votes (WebArena's Reddit)."""
