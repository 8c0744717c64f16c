"""A city map with places, directions and saved lists, and a small wiki of the city (WebArena's map and Wikipedia)."""
