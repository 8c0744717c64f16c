"""The back office's pages."""

from __future__ import annotations

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for

from environment.websites import execute, paginate, query, query_one
from environment.websites.shop_admin.contents import (
    ANY,
    CITIES,
    GROUPS,
    INVOICE_STATES,
    MONTHS,
    ORDER_SORTS,
    ORDER_STATES,
    PAGE,
    PRODUCT_SORTS,
    PRODUCT_STATES,
    REVIEW_STATES,
    SCHEMA,
    bestsellers_query,
    customers_query,
    invoices_query,
    low_stock_query,
    orders_query,
    populate,
    products_query,
    reviews_query,
    spending_query,
)

__all__ = ["SCHEMA", "blueprint", "populate"]

blueprint = Blueprint("shop_admin", __name__, url_prefix="/shop_admin", template_folder="templates")


def _row(table, key, value):
    return query_one(f"SELECT * FROM shop_admin_{table} WHERE {key} = ?", value) or abort(404)


def _form(*keys) -> dict:
    return {key: request.form.get(key, "").strip() for key in keys}


def _number(text, low, high) -> bool:
    return text.isascii() and text.isdigit() and low <= int(text) <= high


def _listing(template, build_query, options, **defaults):
    """A page with filters and a page of rows; the filters are `build_query`'s arguments."""
    filters = {key: request.args.get(key, value).strip() for key, value in defaults.items()}
    rows = query(*build_query(**filters))
    page = request.args.get("page", 1, type=int)
    shown, count = paginate(rows, page, PAGE)

    def link(number):
        return url_for(request.endpoint, page=number, **filters)

    listed = {"rows": shown, "total": len(rows), "page": min(max(page, 1), count), "count": count, "link": link}
    return render_template(f"shop_admin/{template}.html", filters=filters, options=options, **listed)


@blueprint.route("/")
@blueprint.route("", endpoint="root")
def home():
    orders = len(query("SELECT 1 FROM shop_admin_orders WHERE state = 'Pending'"))
    reviews = len(query("SELECT 1 FROM shop_admin_reviews WHERE state = 'Waiting'"))
    return render_template("shop_admin/home.html", orders=orders, reviews=reviews)


# --- sales ---------------------------------------------------------------------------------------------------------


@blueprint.route("/orders")
def orders():
    options = {"state": (ANY, *ORDER_STATES), "sort": ORDER_SORTS}
    return _listing("orders", orders_query, options, customer="", state=ANY, sort="Newest")


@blueprint.route("/orders/<int:order>", methods=["GET", "POST"])
def order(order):
    row = _row("orders", "id", order)
    if request.method == "POST":
        values = _form("state", "note")
        execute("UPDATE shop_admin_orders SET state = ?, note = ? WHERE id = ?", values["state"], values["note"] or "None", order)
        flash("Order updated.")
        return redirect(url_for("shop_admin.order", order=order))
    invoice = query_one("SELECT * FROM shop_admin_invoices WHERE order_id = ?", order)
    return render_template("shop_admin/order.html", order=row, invoice=invoice, states=ORDER_STATES)


@blueprint.route("/orders/<int:order>/invoice", methods=["POST"])
def create_invoice(order):
    row = _row("orders", "id", order)
    invoice = query_one("SELECT id FROM shop_admin_invoices WHERE order_id = ?", order)
    if invoice is None:
        columns = "(order_id, customer, amount, due, state)"
        values = (order, row["customer"], row["total"], "June 30", INVOICE_STATES[0])
        number = execute(f"INSERT INTO shop_admin_invoices {columns} VALUES (?, ?, ?, ?, ?)", *values)
        flash("Invoice created.")
    return redirect(url_for("shop_admin.invoice", invoice=invoice["id"] if invoice else number))


@blueprint.route("/invoices")
def invoices():
    return _listing("invoices", invoices_query, {"state": (ANY, *INVOICE_STATES)}, customer="", state=ANY)


@blueprint.route("/invoices/<int:invoice>", methods=["GET", "POST"])
def invoice(invoice):
    row = _row("invoices", "id", invoice)
    if request.method == "POST":
        execute("UPDATE shop_admin_invoices SET state = ? WHERE id = ?", INVOICE_STATES[1], invoice)
        flash("Invoice settled.")
        return redirect(url_for("shop_admin.invoice", invoice=invoice))
    return render_template("shop_admin/invoice.html", invoice=row)


# --- products and customers ----------------------------------------------------------------------------------------


@blueprint.route("/products")
def products():
    options = {"state": (ANY, *PRODUCT_STATES), "sort": PRODUCT_SORTS}
    return _listing("products", products_query, options, name="", state=ANY, sort="Name")


@blueprint.route("/products/<int:product>")
def product(product):
    return render_template("shop_admin/product.html", product=_row("products", "id", product))


@blueprint.route("/products/new", methods=["GET", "POST"], defaults={"product": None})
@blueprint.route("/products/<int:product>/edit", methods=["GET", "POST"])
def product_form(product):
    values = _row("products", "id", product) if product else {"name": "", "price": "", "stock": "0", "state": PRODUCT_STATES[1]}
    errors = {}
    if request.method == "POST":
        values = _form("name", "price", "stock", "state")
        errors = _product_errors(values, product)
        if not errors:
            return redirect(url_for("shop_admin.product", product=_save_product(values, product)))
    return render_template("shop_admin/product_form.html", values=values, errors=errors, states=PRODUCT_STATES, product=product)


def _product_errors(values, product) -> dict:
    errors = {} if values["name"] else {"name": "Enter a name."}
    if query_one("SELECT 1 FROM shop_admin_products WHERE name = ? AND id != ?", values["name"], product or 0):
        errors["name"] = "This name is taken."
    if not _number(values["price"], 1, 999):
        errors["price"] = "Enter a number from 1 to 999."
    if not _number(values["stock"], 0, 999):
        errors["stock"] = "Enter a number from 0 to 999."
    return errors


def _save_product(values, product) -> int:
    flash("Product saved.")
    row = values["name"], int(values["price"]), int(values["stock"]), values["state"]
    if product:
        execute("UPDATE shop_admin_products SET name = ?, price = ?, stock = ?, state = ? WHERE id = ?", *row, product)
        return product
    return execute("INSERT INTO shop_admin_products (name, price, stock, state) VALUES (?, ?, ?, ?)", *row)


@blueprint.route("/customers")
def customers():
    return _listing("customers", customers_query, {"team": (ANY, *GROUPS)}, name="", team=ANY)


@blueprint.route("/customers/<name>")
def customer(name):
    orders = query("SELECT * FROM shop_admin_orders WHERE customer = ? ORDER BY id DESC LIMIT 5", name)
    return render_template("shop_admin/customer.html", customer=_row("customers", "name", name), orders=orders)


@blueprint.route("/customers/<name>/edit", methods=["GET", "POST"])
def edit_customer(name):
    values, error = _row("customers", "name", name), ""
    if request.method == "POST":
        values = {"name": name, **_form("team", "city", "phone")}
        if _number(values["phone"], 100, 999):
            row = values["team"], values["city"], values["phone"], name
            execute("UPDATE shop_admin_customers SET team = ?, city = ?, phone = ? WHERE name = ?", *row)
            flash("Customer saved.")
            return redirect(url_for("shop_admin.customer", name=name))
        error = "Enter three digits."
    return render_template("shop_admin/customer_form.html", values=values, error=error, groups=GROUPS, cities=CITIES)


# --- marketing -----------------------------------------------------------------------------------------------------


@blueprint.route("/reviews")
def reviews():
    return _listing("reviews", reviews_query, {"state": (ANY, *REVIEW_STATES)}, product="", state=ANY)


@blueprint.route("/reviews/<int:review>", methods=["GET", "POST"])
def review(review):
    row = _row("reviews", "id", review)
    if request.method == "POST":
        values = _form("state", "reply")
        if values["state"] in REVIEW_STATES:
            execute("UPDATE shop_admin_reviews SET state = ?, reply = ? WHERE id = ?", values["state"], values["reply"] or "None", review)
            flash("Review saved.")
        return redirect(url_for("shop_admin.review", review=review))
    return render_template("shop_admin/review.html", review=row)


@blueprint.route("/reviews/<int:review>/delete", methods=["POST"])
def delete_review(review):
    execute("DELETE FROM shop_admin_reviews WHERE id = ?", review)
    flash("Review deleted.")
    return redirect(url_for("shop_admin.reviews"))


@blueprint.route("/coupons")
def coupons():
    return render_template("shop_admin/coupons.html", coupons=query("SELECT * FROM shop_admin_coupons ORDER BY id DESC LIMIT 6"))


@blueprint.route("/coupons/<int:coupon>")
def coupon(coupon):
    return render_template("shop_admin/coupon.html", coupon=_row("coupons", "id", coupon))


@blueprint.route("/coupons/<int:coupon>/end", methods=["POST"])
def end_coupon(coupon):
    execute("UPDATE shop_admin_coupons SET state = 'Ended' WHERE id = ?", coupon)
    flash("Coupon ended.")
    return redirect(url_for("shop_admin.coupon", coupon=coupon))


@blueprint.route("/coupons/new", methods=["GET", "POST"])
def new_coupon():
    """The first page: name and group.  The address of the second carries them."""
    values, error = {"name": "", "team": GROUPS[0]}, ""
    if request.method == "POST":
        values = _form("name", "team")
        if values["name"]:
            return redirect(url_for("shop_admin.coupon_terms", **values))
        error = "Enter a name."
    return render_template("shop_admin/coupon_form.html", values=values, error=error, groups=GROUPS)


@blueprint.route("/coupons/new/terms", methods=["GET", "POST"])
def coupon_terms():
    name, team = request.args.get("name", ""), request.args.get("team", GROUPS[0])
    if not name:
        return redirect(url_for("shop_admin.new_coupon"))
    values, errors = {"percent": "", "code": ""}, {}
    if request.method == "POST":
        values = _form("percent", "code")
        errors = {} if _number(values["percent"], 1, 99) else {"percent": "Enter a number from 1 to 99."}
        errors |= {} if values["code"] else {"code": "Enter a code."}
        if not errors:
            sql = "INSERT INTO shop_admin_coupons (name, team, percent, code, state) VALUES (?, ?, ?, ?, 'Active')"
            flash("Coupon created.")
            coupon = execute(sql, name, team, int(values["percent"]), values["code"])
            return redirect(url_for("shop_admin.coupon", coupon=coupon))
    return render_template("shop_admin/coupon_terms.html", name=name, values=values, errors=errors)


# --- reports -------------------------------------------------------------------------------------------------------


@blueprint.route("/reports")
def reports():
    return render_template("shop_admin/reports.html")


@blueprint.route("/reports/bestsellers")
def bestsellers():
    month = request.args.get("month", "")
    return render_template("shop_admin/bestsellers.html", month=month, months=("", *MONTHS), rows=query(*bestsellers_query(month)))


@blueprint.route("/reports/spending")
def spending():
    state = request.args.get("state", "")
    return render_template("shop_admin/spending.html", state=state, states=("", *ORDER_STATES), rows=query(*spending_query(state)))


@blueprint.route("/reports/low_stock")
def low_stock():
    limit = request.args.get("limit", "").strip()
    rows = query(*low_stock_query(int(limit))) if _number(limit, 1, 999) else None
    return render_template("shop_admin/low_stock.html", limit=limit, rows=rows)
