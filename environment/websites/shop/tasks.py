"""Task templates of the shop."""

from __future__ import annotations

from environment.websites.authoring import (
    Draft,
    Unsuitable,
    answer_is,
    both,
    click,
    ends_at,
    page_shows,
    select,
    stop,
    subgoal,
    type_into,
)
from environment.websites.shop.contents import CITIES, COLORS, DELIVERIES, REASONS, STATUSES, USER, phone, street
from environment.websites.shop.site import CART, ORDER_SORTS, SORTS
from environment.websites.words import person, phrase

HOME = "__SHOP__"


def stock_of_cheapest(db, rng) -> Draft:
    category, color, _, product = first_of(db, rng, "price")
    path = f"^/shop/category/{category}"
    return Draft(
        intents=[
            f'How many pieces of the cheapest "{category}" product that comes in "{color}" are in stock?',
            f'In "{category}", find the product in "{color}" with the lowest price. How many of it are in stock?',
            f'Tell me the stock of the lowest priced "{category}" product that can be had in "{color}"',
        ],
        start=HOME,
        eval=answer_is(str(product["stock"])),
        subgoals=[
            subgoal(f'Open the category "{category}"', path=path),
            subgoal(f'Show only products in "{color}"', path=f"{path}.*color={color}"),
            subgoal("Sort them by lowest price", path=f"{path}.*color={color}.*sort=price"),
            subgoal("Open the first product", path=f"^/shop/product/{product['id']}$"),
        ],
        oracle=[
            click("link", category),
            select("Color", color),
            click("button", "Filter"),
            *sorted_by("price"),
            click("link", product["name"]),
            stop(str(product["stock"])),
        ],
    )


def best_rated_within_price(db, rng) -> Draft:
    category, color, limit, product = first_of(db, rng, "rating", rng.sample(range(30, 80), 4))
    path = f"^/shop/category/{category}"
    return Draft(
        intents=[
            f'Open the best rated "{category}" product in "{color}" that costs up to "{limit}" dollars',
            f'Show me the page of the "{category}" product with the best rating, in "{color}" and for at most "{limit}" dollars',
            f'I want to spend up to "{limit}" dollars in "{category}": open the best rated product in "{color}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/product/{product['id']}"),
        subgoals=[
            subgoal(f'Open the category "{category}"', path=path),
            subgoal("Filter by color and price", path=f"{path}.*color={color}&limit={limit}"),
            subgoal("Sort by rating", path=f"{path}.*color={color}&limit={limit}&sort=rating"),
            subgoal("Open the first product", path=f"^/shop/product/{product['id']}$"),
        ],
        oracle=[
            click("link", category),
            select("Color", color),
            type_into("Price up to", str(limit)),
            click("button", "Filter"),
            *sorted_by("rating"),
            click("link", product["name"]),
            stop(),
        ],
    )


def reviewer_of_product(db, rng) -> Draft:
    product = some_product(db, rng)
    reviews = db.execute("SELECT * FROM shop_reviews WHERE product_id = ? ORDER BY id", (product["id"],)).fetchall()
    review = rng.choice(reviews)
    return Draft(
        intents=[
            f'Who gave the product "{product["name"]}" "{review["stars"]} stars"?',
            f'Name the person whose review of "{product["name"]}" has "{review["stars"]} stars"',
            f'Whose review gives "{review["stars"]} stars" to "{product["name"]}"?',
        ],
        start=HOME,
        eval=answer_is(review["author"]),
        subgoals=[
            *search_subgoals(product),
            subgoal("Open the product and read its reviews", path=f"^/shop/product/{product['id']}$"),
        ],
        oracle=[*search(product["name"]), stop(review["author"])],
    )


def add_to_cart(db, rng) -> Draft:
    product = some_product(db, rng)
    color, quantity = rng.choice(product["colors"].split(",")), rng.randint(2, 8)
    form = f"^/shop/product/{product['id']}$"
    added = "SELECT 1 FROM shop_cart WHERE product_id = ? AND color = ? AND quantity = ?"
    return Draft(
        intents=[
            f'Put "{quantity}" of "{product["name"]}" in "{color}" into my cart',
            f'Add "{product["name"]}" to the cart: color "{color}", quantity "{quantity}"',
            f'I need "{quantity}" pieces of "{product["name"]}", color "{color}", in the cart',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/cart", "main", [f"{product['name']} {color}, {quantity} for ${quantity * product['price']}"])),
        subgoals=[
            subgoal(f'Search for "{product["name"]}"', path=r"^/shop/search\?q=.", page=[f'link "{product["name"]}"']),
            subgoal("Open the product", path=form),
            subgoal("Choose color and quantity", page=[f'combobox "Color" "{color}"', f'textbox "Quantity" "{quantity}"']),
            subgoal("Add it to the cart", db=(added, product["id"], color, quantity)),
        ],
        oracle=[*search(product["name"]), *choosing(color, quantity), stop()],
    )


def change_cart(db, rng) -> Draft:
    first, second = rng.sample(db.execute(f"{CART} ORDER BY c.id").fetchall(), 2)
    quantity = rng.randint(4, 8)
    rest = db.execute("SELECT sum(cost) FROM (" + CART + ") WHERE id NOT IN (?, ?)", (first["id"], second["id"])).fetchone()[0]
    total = rest + quantity * first["price"]
    line = f"{first['name']} {first['color']}, {quantity} for ${quantity * first['price']}"
    field = f"Quantity of {first['name']}"
    return Draft(
        intents=[
            f'In my cart, set "{field}" to "{quantity}" and remove "{second["name"]}". What is the total then?',
            f'Take "{second["name"]}" out of my cart, make "{field}" "{quantity}", and tell me the new total',
            f'Change my cart: "{field}" "{quantity}", no "{second["name"]}". Which total does it show?',
        ],
        start=HOME,
        eval=both(answer_is(f"${total}"), page_shows((f"{HOME}/cart", "main", [line, f"Total ${total}"]))),
        subgoals=[
            subgoal("Open the cart", path="^/shop/cart"),
            subgoal("Enter the new quantity", path="^/shop/cart", page=[f'textbox "{field}" "{quantity}"']),
            subgoal("Update the cart", db=("SELECT 1 FROM shop_cart WHERE id = ? AND quantity = ?", first["id"], quantity)),
            subgoal(f'Remove "{second["name"]}"', db=("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM shop_cart WHERE id = ?)", second["id"])),
        ],
        oracle=[
            click("link", "Cart"),
            type_into(field, str(quantity)),
            click("button", "Update cart"),
            click("button", f"Remove {second['name']}"),
            stop(f"${total}"),
        ],
    )


def order_cart(db, rng) -> Draft:
    name, line, city, delivery = recipient(rng)
    total = db.execute(f"SELECT sum(cost) FROM ({CART})").fetchone()[0] + DELIVERIES[delivery]
    return Draft(
        intents=[
            f'Order what is in my cart for "{name}", street "{line}", city "{city}", delivery "{delivery}", and tell me the total',
            f'Send the things in my cart to "{name}" at "{line}" in "{city}" with "{delivery}" delivery. What is the total?',
            f'Check out my cart: name "{name}", street "{line}", "{city}", "{delivery}". Tell me the total of the order',
        ],
        start=HOME,
        eval=both(answer_is(f"${total}"), order_shows(db, [name, line, city, f"Delivery {delivery}", f"Total ${total}"])),
        subgoals=[subgoal("Open the checkout", path="^/shop/checkout"), *checkout_subgoals(name, line, city, delivery)],
        oracle=[click("link", "Cart"), click("link", "Checkout"), *checkout(name, line, city, delivery), stop(f"${total}")],
    )


def order_from_wish_list(db, rng) -> Draft:
    product = rng.choice(db.execute("SELECT * FROM shop_products WHERE wished ORDER BY name").fetchall())
    color = rng.choice(product["colors"].split(","))
    name, line, city, delivery = recipient(rng)
    return Draft(
        intents=[
            f'Add "{product["name"]}" in "{color}" from my wish list to the cart and order: "{name}", "{line}", "{city}", "{delivery}"',
            f'Buy "{product["name"]}" of my wish list in "{color}" for "{name}" at "{line}" in "{city}", delivery "{delivery}"',
            f'From my wish list, order "{product["name"]}", color "{color}". Send it to "{name}", "{line}", "{city}" by "{delivery}"',
        ],
        start=HOME,
        eval=order_shows(db, [f"1 {product['name']}, {color}", name, line, city, f"Delivery {delivery}"]),
        subgoals=[
            subgoal(f'Add "{product["name"]}" to the cart', db=("SELECT 1 FROM shop_cart WHERE product_id = ? AND color = ?", product["id"], color)),
            *checkout_subgoals(name, line, city, delivery),
        ],
        oracle=[
            click("link", "Wish list"),
            click("link", product["name"]),
            select("Color", color),
            click("button", "Add to cart"),
            click("link", "Checkout"),
            *checkout(name, line, city, delivery),
            stop(),
        ],
    )


def recipient_of_order(db, rng) -> Draft:
    status, sort = rng.choice(STATUSES), rng.choice(["Largest total", "Smallest total"])
    orders = db.execute(f"SELECT * FROM shop_orders WHERE status = ? ORDER BY {ORDER_SORTS[sort]}", (status,)).fetchall()
    if len(orders) < 2 or orders[0]["total"] == orders[1]["total"]:
        raise Unsuitable(f"no order with the status {status} stands out")
    order, path = orders[0], f"^/shop/orders.*status={status}&sort={sort.replace(' ', '.')}"
    return Draft(
        intents=[
            f'Who got my order with the "{sort}" among those with the status "{status}"?',
            f'Of my "{status}" orders, to whom was the one with the "{sort}" sent?',
            f'Name the person to whom my "{status}" order with the "{sort}" was sent',
        ],
        start=HOME,
        eval=answer_is(order["name"]),
        subgoals=[
            subgoal("Open my account", path="^/shop/account"),
            subgoal("Open my orders", path="^/shop/orders"),
            subgoal(f'Show "{status}" orders by "{sort}"', path=path),
            subgoal("Open the first order", path=f"^/shop/order/{order['id']}$"),
        ],
        oracle=[
            click("link", "Account"),
            click("link", "Orders"),
            select("Status", status),
            select("Sort by", sort),
            click("button", "Show"),
            click("link", f"Order {order['id']}"),
            stop(order["name"]),
        ],
    )


def return_item(db, rng) -> Draft:
    order = rng.choice(db.execute("SELECT * FROM shop_orders ORDER BY day DESC LIMIT 5").fetchall())["id"]
    item = rng.choice(db.execute("SELECT name FROM shop_items WHERE order_id = ? ORDER BY rowid", (order,)).fetchall())["name"]
    reason, comment = rng.choice(REASONS[1:]), phrase(rng)
    return Draft(
        intents=[
            f'Return "{item}" of "Order {order}": reason "{reason}", comment "{comment}"',
            f'Send back "{item}" from "Order {order}" with the reason "{reason}" and the comment "{comment}"',
            f'I want to return "{item}", which is in "Order {order}". Reason "{reason}", comment "{comment}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/order/{order}", "main", [f"Return of {item}: {reason}, {comment}"])),
        subgoals=[
            subgoal("Open my orders", path="^/shop/orders"),
            subgoal(f'Open "Order {order}"', path=f"^/shop/order/{order}$"),
            subgoal("Open the return form", path=f"^/shop/order/{order}/return"),
            subgoal("Send the return", db=("SELECT 1 FROM shop_returns WHERE order_id = ? AND item = ? AND comment = ?", order, item, comment)),
        ],
        oracle=[
            click("link", "Account"),
            click("link", "Orders"),
            click("link", f"Order {order}"),
            click("link", "Return an item"),
            select("Item", item),
            select("Reason", reason),
            type_into("Comment", comment),
            click("button", "Send return"),
            stop(),
        ],
    )


def write_review(db, rng) -> Draft:
    product, stars, text = some_product(db, rng), rng.randint(1, 5), phrase(rng)
    return Draft(
        intents=[
            f'Review "{product["name"]}" with "{stars}" stars and the text "{text}"',
            f'Write a review of "{product["name"]}": "{stars}" stars, "{text}"',
            f'Give "{product["name"]}" "{stars}" stars and write "{text}" in the review',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/product/{product['id']}", "main", [f"{USER}: {stars} stars, {text}"])),
        subgoals=[
            subgoal(f'Search for "{product["name"]}"', path=r"^/shop/search\?q=.", page=[f'link "{product["name"]}"']),
            subgoal("Open the product", path=f"^/shop/product/{product['id']}$"),
            subgoal("Open the review form", path=f"^/shop/product/{product['id']}/review"),
            subgoal("Post the review", db=("SELECT 1 FROM shop_reviews WHERE product_id = ? AND body = ? AND stars = ?", product["id"], text, stars)),
        ],
        oracle=[
            *search(product["name"]),
            click("link", "Write a review"),
            select("Stars", str(stars)),
            type_into("Review", text),
            click("button", "Post review"),
            stop(),
        ],
    )


def change_address(db, rng) -> Draft:
    address = rng.choice(db.execute("SELECT * FROM shop_addresses ORDER BY label").fetchall())
    label, line, number = address["label"], street(rng), phone(rng)
    city = rng.choice([city for city in CITIES if city != address["city"]])
    saved = "SELECT 1 FROM shop_addresses WHERE label = ? AND street = ? AND city = ? AND phone = ?"
    return Draft(
        intents=[
            f'Change my address "{label}" to street "{line}", city "{city}" and phone "{number}"',
            f'In my address book, "{label}" is now at "{line}" in "{city}", phone "{number}"',
            f'Update the address "{label}": street "{line}", city "{city}", phone "{number}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/addresses", "main", [f"{label} {address['name']}, {line}, {city}, {number}"])),
        subgoals=[
            subgoal("Open the address book", path="^/shop/addresses"),
            subgoal(f'Open the address "{label}"', path=f"^/shop/addresses/{address['id']}$"),
            subgoal("Enter street, city and phone", page=[f'textbox "Street" "{line}"', f'combobox "City" "{city}"', f'textbox "Phone" "{number}"']),
            subgoal("Save the address", db=(saved, label, line, city, number)),
        ],
        oracle=[
            click("link", "Account"),
            click("link", "Address book"),
            click("link", label),
            type_into("Street", line),
            select("City", city),
            type_into("Phone", number),
            click("button", "Save address"),
            stop(),
        ],
    )


TEMPLATES = (
    stock_of_cheapest,
    best_rated_within_price,
    reviewer_of_product,
    add_to_cart,
    change_cart,
    order_cart,
    order_from_wish_list,
    recipient_of_order,
    return_item,
    write_review,
    change_address,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _categories(db) -> list[str]:
    return [row[0] for row in db.execute("SELECT DISTINCT category FROM shop_products ORDER BY category")]


def some_product(db, rng):
    """A product that is not in the cart yet."""
    rows = db.execute("SELECT * FROM shop_products WHERE id NOT IN (SELECT product_id FROM shop_cart) ORDER BY id").fetchall()
    return rng.choice(rows)


def first_of(db, rng, sort: str, limits=(999,)):
    """A category, a color, a price limit and the product that they and the sort put first.

    Drawn from the cases in which that product would not be first if the color, the limit or the sort were left out.
    """
    cases = []
    for category in _categories(db):
        rows = db.execute(f"SELECT * FROM shop_products WHERE category = ? ORDER BY {SORTS[sort][1]}", (category,)).fetchall()
        for color in COLORS:
            for limit in limits:
                colored = [row for row in rows if color in row["colors"].split(",")]
                cheap = [row for row in rows if row["price"] <= limit]
                fitting = [row for row in colored if row in cheap]
                leaders = [cheap[:1], sorted(fitting, key=lambda row: row["name"])[:1]] + [colored[:1]] * (limit < 999)
                if fitting and fitting[:1] not in leaders:
                    cases.append((category, color, limit, fitting[0]))
    if not cases:
        raise Unsuitable("no category needs both the filter and the sort")
    return rng.choice(cases)


def sorted_by(sort: str) -> list:
    return [click("button", f"Sort: {SORTS['name'][0]}"), click("link", SORTS[sort][0])]


def search(name: str) -> list:
    return [click("link", "Search"), type_into("Search for", name), click("button", "Search"), click("link", name)]


def search_subgoals(product) -> list:
    return [
        subgoal("Open the search page", path="^/shop/search"),
        subgoal("Enter the name as search text", path="^/shop/search", page=[f'textbox "Search for" "{product["name"]}"']),
        subgoal("Run the search", path=r"^/shop/search\?q=.", page=[f'link "{product["name"]}"']),
    ]


def choosing(color: str, quantity: int) -> list:
    return [select("Color", color), type_into("Quantity", str(quantity)), click("button", "Add to cart")]


def recipient(rng) -> tuple[str, str, str, str]:
    return person(rng), street(rng), rng.choice(CITIES), rng.choice(["Express", "Pickup"])


def checkout(name: str, line: str, city: str, delivery: str) -> list:
    return [
        type_into("Name", name),
        type_into("Street", line),
        select("City", city),
        click("button", "Continue"),
        click("radio", delivery),
        click("button", "Continue"),
        click("button", "Place order"),
    ]


def checkout_subgoals(name: str, line: str, city: str, delivery: str) -> list:
    address = ("SELECT 1 FROM shop_checkout WHERE name = ? AND street = ? AND city = ?", name, line, city)
    return [
        subgoal("Enter the address", path="^/shop/checkout/delivery", db=address),
        subgoal(f'Choose the delivery "{delivery}"', path="^/shop/checkout/confirm", page=[f"Delivery {delivery}"]),
        subgoal("Place the order", db=("SELECT 1 FROM shop_orders WHERE name = ? AND street = ? AND delivery = ?", name, line, delivery)),
    ]


def order_shows(db, texts: list[str]) -> dict:
    """The order that is placed next shows these texts."""
    order = db.execute("SELECT max(id) + 1 FROM shop_orders").fetchone()[0]
    return page_shows((f"{HOME}/order/{order}", "main", texts))
