"""A shop's back office: orders, invoices, products, customers, reviews, coupons, reports (WebArena's shopping admin)."""
