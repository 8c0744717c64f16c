"""An online store: products, cart, checkout, orders, addresses (WebArena's shopping site)."""
