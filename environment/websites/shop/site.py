"""The shop's pages."""

from __future__ import annotations

import re

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.shop.contents import CITIES, COLORS, DELIVERIES, REASONS, SCHEMA, STATUSES, TOPICS, USER, populate

__all__ = ["SCHEMA", "populate", "blueprint"]  # what a site has to offer

PAGE = 5
SORTS = {
    "name": ("Name", "name"),
    "price": ("Lowest price", "price"),
    "rating": ("Best rated", "rating DESC"),
}
ORDER_SORTS = {"Newest": "day DESC", "Largest total": "total DESC", "Smallest total": "total"}
CART = """SELECT c.*, p.name, p.price, p.stock, c.quantity * p.price AS cost
          FROM shop_cart c JOIN shop_products p ON p.id = c.product_id"""

blueprint = Blueprint("shop", __name__, url_prefix="/shop", template_folder="templates")


def _form(*keys) -> dict[str, str]:
    return {key: request.form.get(key, "").strip() for key in keys}


def _missing(values) -> dict[str, str]:
    return {key: f"Enter a {key}." for key, value in values.items() if not value}


def _quantity(text: str, stock: int) -> int | None:
    """The number in `text` if that many can be bought, else None."""
    return int(text) if re.fullmatch(r"\d{1,3}", text) and 1 <= int(text) <= stock else None


# --- the shelves --------------------------------------------------------------------------------------------------


@blueprint.route("/")
@blueprint.route("", endpoint="root")
def home():
    categories = query("SELECT category, count(*) AS products FROM shop_products GROUP BY category ORDER BY category")
    return render_template("shop/home.html", categories=categories)


@blueprint.route("/category/<name>")
def category(name):
    if not query_one("SELECT 1 FROM shop_products WHERE category = ?", name):
        abort(404)
    color, limit, sort = (request.args.get(key, "") for key in ("color", "limit", "sort"))
    sort = sort if sort in SORTS else "name"
    most = int(limit) if re.fullmatch(r"\d{1,3}", limit) else 999
    sql = f"SELECT * FROM shop_products WHERE category = ? AND colors LIKE ? AND price <= ? ORDER BY {SORTS[sort][1]}, id"
    products = query(sql, name, f"%{color}%" if color in COLORS else "%", most)

    def link(number, sort=sort):
        return url_for("shop.category", name=name, color=color, limit=limit, sort=sort, page=number)

    page = request.args.get("page", 1, type=int)
    shown, count = paginate(products, page, PAGE)
    values = {"name": name, "color": color, "limit": limit, "sort": sort, "page": min(max(page, 1), count), "count": count}
    return render_template("shop/category.html", products=shown, sorts=SORTS, colors=("Any", *COLORS), link=link, **values)


@blueprint.route("/search")
def search():
    text = request.args.get("q", "").strip()
    products = query("SELECT * FROM shop_products WHERE name LIKE ? ORDER BY id DESC LIMIT 6", f"%{text}%") if text else []
    return render_template("shop/search.html", text=text, products=products)


@blueprint.route("/product/<int:product>", methods=["GET", "POST"])
def product(product):
    row = query_one("SELECT * FROM shop_products WHERE id = ?", product) or abort(404)
    values = {"color": "Choose", "quantity": "1"}
    errors = {}
    if request.method == "POST":
        values = _form("color", "quantity")
        quantity = _quantity(values["quantity"], row["stock"])
        errors |= {} if values["color"] in row["colors"].split(",") else {"color": "Choose a color."}
        errors |= {} if quantity else {"quantity": f"Enter a number from 1 to {row['stock']}."}
        if not errors:
            _add_to_cart(product, values["color"], quantity)
            flash("Added to the cart.")
            return redirect(url_for("shop.cart"))
    reviews = query("SELECT * FROM shop_reviews WHERE product_id = ? ORDER BY id DESC LIMIT 5", product)
    colors = ("Choose", *row["colors"].split(","))
    return render_template("shop/product.html", product=row, reviews=reviews, values=values, errors=errors, colors=colors)


def _add_to_cart(product: int, color: str, quantity: int) -> None:
    row = query_one("SELECT id FROM shop_cart WHERE product_id = ? AND color = ?", product, color)
    if row:
        execute("UPDATE shop_cart SET quantity = quantity + ? WHERE id = ?", quantity, row["id"])
    else:
        execute("INSERT INTO shop_cart (product_id, color, quantity) VALUES (?, ?, ?)", product, color, quantity)


@blueprint.route("/product/<int:product>/review", methods=["GET", "POST"])
def review(product):
    row = query_one("SELECT * FROM shop_products WHERE id = ?", product) or abort(404)
    values = _form("stars", "review")
    errors = _missing(values) if request.method == "POST" else {}
    if request.method == "POST" and not errors:
        columns = "(product_id, author, stars, body)"
        execute(f"INSERT INTO shop_reviews {columns} VALUES (?, ?, ?, ?)", product, USER, values["stars"], values["review"])
        flash("Review posted.")
        return redirect(url_for("shop.product", product=product))
    return render_template("shop/review.html", product=row, values=values, errors=errors)


@blueprint.route("/product/<int:product>/wish", methods=["POST"])
def wish(product):
    execute("UPDATE shop_products SET wished = 1 - wished WHERE id = ?", product)
    return redirect(url_for("shop.wishes"))


@blueprint.route("/wishes")
def wishes():
    return render_template("shop/wishes.html", products=query("SELECT * FROM shop_products WHERE wished ORDER BY name LIMIT 6"))


# --- cart and checkout --------------------------------------------------------------------------------------------


@blueprint.route("/cart", methods=["GET", "POST"])
def cart():
    items = query(f"{CART} ORDER BY c.id")
    if request.method == "POST":
        quantities = {item["id"]: _quantity(request.form.get(f"quantity{item['id']}", ""), item["stock"]) for item in items}
        for item, quantity in quantities.items():
            if quantity:
                execute("UPDATE shop_cart SET quantity = ? WHERE id = ?", quantity, item)
        flash("Cart updated." if all(quantities.values()) else "A quantity is not a number that we can sell.")
        return redirect(url_for("shop.cart"))
    return render_template("shop/cart.html", items=items, total=sum(item["cost"] for item in items))


@blueprint.route("/cart/<int:item>/remove", methods=["POST"])
def remove(item):
    execute("DELETE FROM shop_cart WHERE id = ?", item)
    flash("Removed from the cart.")
    return redirect(url_for("shop.cart"))


@blueprint.route("/checkout/address", methods=["GET", "POST"])
def checkout():
    values, errors = dict(query_one("SELECT name, street, city FROM shop_checkout")), {}
    if request.method == "POST":
        values = _form("name", "street", "city")
        errors = _missing(values)
        if not errors:
            execute("UPDATE shop_checkout SET name = ?, street = ?, city = ?", *values.values())
            return redirect(url_for("shop.delivery"))
    return render_template("shop/checkout.html", values=values, errors=errors, cities=("", *CITIES))


@blueprint.route("/checkout/delivery", methods=["GET", "POST"])
def delivery():
    if request.method == "POST" and request.form.get("delivery") in DELIVERIES:
        execute("UPDATE shop_checkout SET delivery = ?", request.form["delivery"])
        return redirect(url_for("shop.confirm"))
    chosen = query_one("SELECT delivery FROM shop_checkout")["delivery"]
    return render_template("shop/delivery.html", deliveries=DELIVERIES, chosen=chosen)


@blueprint.route("/checkout/confirm", methods=["GET", "POST"])
def confirm():
    items, details = query(f"{CART} ORDER BY c.id"), query_one("SELECT * FROM shop_checkout")
    if not items or not details["name"]:
        return redirect(url_for("shop.cart"))
    total = sum(item["cost"] for item in items) + DELIVERIES[details["delivery"]]
    if request.method == "POST":
        columns = "(day, status, name, street, city, delivery, total)"
        order = execute(f"INSERT INTO shop_orders {columns} VALUES (30, 'Packed', ?, ?, ?, ?, ?)", *details, total)
        for item in items:
            row = [item[key] for key in ("name", "color", "quantity", "price")]
            execute("INSERT INTO shop_items VALUES (?, ?, ?, ?, ?)", order, *row)
        execute("DELETE FROM shop_cart")
        flash("Order placed.")
        return redirect(url_for("shop.order", order=order))
    return render_template("shop/confirm.html", items=items, details=details, total=total)


# --- the account --------------------------------------------------------------------------------------------------


@blueprint.route("/account")
def account():
    return render_template("shop/account.html", user=USER)


@blueprint.route("/orders")
def orders():
    status, sort = request.args.get("status", "Any"), request.args.get("sort", "Newest")
    sql = f"SELECT * FROM shop_orders WHERE status LIKE ? ORDER BY {ORDER_SORTS.get(sort, 'day DESC')}, id DESC"
    rows = query(sql, status if status in STATUSES else "%")

    def link(number):
        return url_for("shop.orders", status=status, sort=sort, page=number)

    page = request.args.get("page", 1, type=int)
    shown, count = paginate(rows, page, PAGE)
    values = {"status": status, "sort": sort, "page": min(max(page, 1), count), "count": count}
    return render_template("shop/orders.html", orders=shown, statuses=("Any", *STATUSES), sorts=ORDER_SORTS, link=link, **values)


@blueprint.route("/order/<int:order>")
def order(order):
    row = query_one("SELECT * FROM shop_orders WHERE id = ?", order) or abort(404)
    items = query("SELECT * FROM shop_items WHERE order_id = ? ORDER BY rowid", order)
    returns = query("SELECT * FROM shop_returns WHERE order_id = ? ORDER BY id", order)
    return render_template("shop/order.html", order=row, items=items, returns=returns)


@blueprint.route("/order/<int:order>/return", methods=["GET", "POST"])
def send_back(order):
    items = [""] + [row["name"] for row in query("SELECT name FROM shop_items WHERE order_id = ? ORDER BY rowid", order)]
    if len(items) == 1:
        abort(404)
    values = _form("item", "reason", "comment")
    errors = _missing(values) if request.method == "POST" else {}
    if request.method == "POST" and not errors:
        execute("INSERT INTO shop_returns (order_id, item, reason, comment) VALUES (?, ?, ?, ?)", order, *values.values())
        flash("Return sent.")
        return redirect(url_for("shop.order", order=order))
    return render_template("shop/return.html", order=order, items=items, reasons=REASONS, values=values, errors=errors)


@blueprint.route("/addresses")
def addresses():
    return render_template("shop/addresses.html", addresses=query("SELECT * FROM shop_addresses ORDER BY label LIMIT 6"))


@blueprint.route("/addresses/new", methods=["GET", "POST"], defaults={"address": None})
@blueprint.route("/addresses/<int:address>", methods=["GET", "POST"])
def edit_address(address):
    keys = ("label", "name", "street", "city", "phone")
    row = query_one("SELECT * FROM shop_addresses WHERE id = ?", address) or abort(404) if address is not None else None
    values, errors = dict(row) if row else dict.fromkeys(keys, ""), {}
    if request.method == "POST":
        values = _form(*keys)
        errors = _missing(values)
        if not errors:
            sql = f"INSERT OR REPLACE INTO shop_addresses (id, {', '.join(keys)}) VALUES (?, ?, ?, ?, ?, ?)"
            execute(sql, address, *values.values())
            flash("Address saved.")
            return redirect(url_for("shop.addresses"))
    return render_template("shop/address.html", values=values, errors=errors, cities=("", *CITIES), address=address)


@blueprint.route("/addresses/<int:address>/delete", methods=["POST"])
def delete_address(address):
    execute("DELETE FROM shop_addresses WHERE id = ?", address)
    flash("Address deleted.")
    return redirect(url_for("shop.addresses"))


@blueprint.route("/contact", methods=["GET", "POST"])
def contact():
    values = _form("topic", "subject", "message")
    errors = _missing(values) if request.method == "POST" else {}
    if request.method == "POST" and not errors:
        execute("INSERT INTO shop_messages (topic, subject, body) VALUES (?, ?, ?)", *values.values())
        flash("Message sent.")
        return redirect(url_for("shop.contact"))
    messages = query("SELECT * FROM shop_messages ORDER BY id DESC LIMIT 3")
    return render_template("shop/contact.html", values=values, errors=errors, topics=TOPICS, messages=messages)
