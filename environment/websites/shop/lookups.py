"""Task templates of the shop in which what one page says is needed on the next."""

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
from environment.websites.shop.contents import DELIVERIES
from environment.websites.shop.site import CART, PAGE
from environment.websites.shop.tasks import (
    HOME,
    checkout,
    checkout_subgoals,
    choosing,
    first_of,
    order_shows,
    search,
    some_product,
    sorted_by,
)


def stock_of_ordered_item(db, rng) -> Draft:
    order, color, product = _ordered(db, rng)
    stock = str(product["stock"])
    return Draft(
        intents=[
            f'How many pieces of the item in "{color}" of my "Order {order}" are in stock now?',
            f'Look up which item in "{color}" I bought with "Order {order}". What is its stock today?',
            f'I bought an item in "{color}" with "Order {order}": tell me how many of it the shop has in stock',
        ],
        start=HOME,
        eval=answer_is(stock),
        subgoals=_ordered_subgoals(order, product),
        oracle=[*_to_ordered(order, product), stop(stock)],
    )


def open_ordered_item(db, rng) -> Draft:
    order, color, product = _ordered(db, rng)
    return Draft(
        intents=[
            f'Open the product page of the item in "{color}" of my "Order {order}"',
            f'Look up which item in "{color}" I bought with "Order {order}" and go to its page in the shop',
            f'I bought an item in "{color}" with "Order {order}": show me the page of that product',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/product/{product['id']}"),
        subgoals=_ordered_subgoals(order, product),
        oracle=[*_to_ordered(order, product), stop()],
    )


def reorder_item(db, rng) -> Draft:
    order, color, product = _ordered(db, rng)
    quantity = rng.randint(2, 8)
    if db.execute("SELECT 1 FROM shop_cart WHERE product_id = ?", (product["id"],)).fetchone():
        raise Unsuitable("the item is in the cart")
    added = "SELECT 1 FROM shop_cart WHERE product_id = ? AND color = ? AND quantity = ?"
    return Draft(
        intents=[
            f'Put "{quantity}" more of the item in "{color}" of my "Order {order}" into my cart, in the same color',
            f'Look up which item in "{color}" I bought with "Order {order}" and add "{quantity}" of it in that color to the cart',
            f'I bought an item in "{color}" with "Order {order}": I need "{quantity}" more of it, in "{color}", in my cart',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/cart", "main", [f"{product['name']} {color}, {quantity} for ${quantity * product['price']}"])),
        subgoals=[
            *_ordered_subgoals(order, product)[1:],
            subgoal("Add it to the cart", db=(added, product["id"], color, quantity)),
        ],
        oracle=[*_to_ordered(order, product), *choosing(color, quantity), stop()],
    )


def pieces_in_two_orders(db, rng) -> Draft:
    numbers = [row["id"] for row in db.execute("SELECT id FROM shop_orders ORDER BY day DESC")]
    first, second = rng.choice(numbers[:PAGE]), rng.choice(numbers[PAGE:])
    pieces = db.execute("SELECT sum(quantity) FROM shop_items WHERE order_id IN (?, ?)", (first, second)).fetchone()[0]
    return Draft(
        intents=[
            f'How many pieces did I buy with "Order {first}" and "Order {second}" together?',
            f'Add up the pieces of all items in my "Order {first}" and "Order {second}"',
            f'What is the number of pieces in "Order {first}" plus that in "Order {second}"?',
        ],
        start=HOME,
        eval=answer_is(str(pieces)),
        subgoals=[
            subgoal("Open my orders", path="^/shop/orders"),
            subgoal(f'Open "Order {first}"', path=f"^/shop/order/{first}$"),
            subgoal("Turn to the second page of my orders", path="^/shop/orders.*page=2"),
            subgoal(f'Open "Order {second}"', path=f"^/shop/order/{second}$"),
        ],
        oracle=[
            *_to_orders(),
            click("link", f"Order {first}"),
            *_to_orders(),
            click("link", "Next page"),
            click("link", f"Order {second}"),
            stop(str(pieces)),
        ],
    )


def stock_of_best_rated(db, rng) -> Draft:
    category, color, limit, product = first_of(db, rng, "rating", rng.sample(range(30, 80), 4))
    stock, path = str(product["stock"]), f"^/shop/category/{category}"
    return Draft(
        intents=[
            f'How many pieces of the best rated "{category}" product in "{color}" that costs up to "{limit}" dollars are in stock?',
            f'In "{category}", find the product in "{color}" with the best rating for at most "{limit}" dollars and tell me its stock',
            f'Tell me the stock of the best rated product in "{category}" that comes in "{color}" and costs up to "{limit}" dollars',
        ],
        start=HOME,
        eval=answer_is(stock),
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
            stop(stock),
        ],
    )


def add_and_tell_total(db, rng) -> Draft:
    product = some_product(db, rng)
    color, quantity = rng.choice(product["colors"].split(",")), rng.randint(2, 8)
    total = db.execute(f"SELECT sum(cost) FROM ({CART})").fetchone()[0] + quantity * product["price"]
    line = f"{product['name']} {color}, {quantity} for ${quantity * product['price']}"
    added = "SELECT 1 FROM shop_cart WHERE product_id = ? AND color = ? AND quantity = ?"
    return Draft(
        intents=[
            f'Put "{quantity}" of "{product["name"]}" in "{color}" into my cart. What is the total then?',
            f'Add "{product["name"]}" to the cart, color "{color}", quantity "{quantity}", and tell me the new total',
            f'Which total does my cart show after you add "{quantity}" pieces of "{product["name"]}" in "{color}"?',
        ],
        start=HOME,
        eval=both(answer_is(f"${total}"), page_shows((f"{HOME}/cart", "main", [line, f"Total ${total}"]))),
        subgoals=[
            subgoal(f'Search for "{product["name"]}"', path=r"^/shop/search\?q=.", page=[f'link "{product["name"]}"']),
            subgoal("Open the product", path=f"^/shop/product/{product['id']}$"),
            subgoal("Choose color and quantity", page=[f'combobox "Color" "{color}"', f'textbox "Quantity" "{quantity}"']),
            subgoal("Add it to the cart", db=(added, product["id"], color, quantity)),
        ],
        oracle=[*search(product["name"]), *choosing(color, quantity), stop(f"${total}")],
    )


def order_to_saved_address(db, rng) -> Draft:
    address = rng.choice(db.execute("SELECT * FROM shop_addresses ORDER BY label").fetchall())
    label, where = address["label"], (address["name"], address["street"], address["city"])
    delivery = rng.choice(["Express", "Pickup"])
    total = db.execute(f"SELECT sum(cost) FROM ({CART})").fetchone()[0] + DELIVERIES[delivery]
    return Draft(
        intents=[
            f'Order what is in my cart to my address "{label}" with the delivery "{delivery}" and tell me the total',
            f'Send the things in my cart to the address "{label}" of my address book by "{delivery}". What is the total?',
            f'Check out my cart: name, street and city of my address "{label}", delivery "{delivery}". Tell me the total of the order',
        ],
        start=HOME,
        eval=both(answer_is(f"${total}"), order_shows(db, [*where, f"Delivery {delivery}", f"Total ${total}"])),
        subgoals=[subgoal("Open the address book", path="^/shop/addresses"), *checkout_subgoals(*where, delivery)],
        oracle=[
            click("link", "Account"),
            click("link", "Address book"),
            click("link", "Cart"),
            click("link", "Checkout"),
            *checkout(*where, delivery),
            stop(f"${total}"),
        ],
    )


TEMPLATES = (
    stock_of_ordered_item,
    open_ordered_item,
    reorder_item,
    pieces_in_two_orders,
    stock_of_best_rated,
    add_and_tell_total,
    order_to_saved_address,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _ordered(db, rng) -> tuple:
    """One of the latest orders, a color that one of its items alone has, and the product that this item is."""
    orders = [row["id"] for row in db.execute("SELECT id FROM shop_orders ORDER BY day DESC LIMIT ?", (PAGE,))]
    sql = "SELECT order_id, color, min(name) AS name FROM shop_items GROUP BY order_id, color HAVING count(*) = 1 ORDER BY 1, 2"
    item = rng.choice([row for row in db.execute(sql) if row["order_id"] in orders])
    product = db.execute("SELECT * FROM shop_products WHERE name = ?", (item["name"],)).fetchone()
    return item["order_id"], item["color"], product


def _to_orders() -> list:
    return [click("link", "Account"), click("link", "Orders")]


def _to_ordered(order: int, product) -> list:
    return [*_to_orders(), click("link", f"Order {order}"), *search(product["name"])]


def _ordered_subgoals(order: int, product) -> list:
    return [
        subgoal("Open my orders", path="^/shop/orders"),
        subgoal(f'Open "Order {order}" and see the item', path=f"^/shop/order/{order}$"),
        subgoal("Search for the item", path=r"^/shop/search\?q=.", page=[f'link "{product["name"]}"']),
        subgoal("Open the product", path=f"^/shop/product/{product['id']}$"),
    ]
