"""Task templates of the map and its wiki."""

from __future__ import annotations

from urllib.parse import quote_plus

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
from environment.websites.map.contents import LISTS, PACES, address, kilometers, minutes, phone
from environment.websites.map.site import ARTICLE_SORTS, ARTICLES, SORTS
from environment.websites.words import phrase

HOME = "__MAP__"


def minutes_between(db, rng) -> Draft:
    start, end = rng.sample(all_places(db), 2)
    by = rng.choice(list(PACES)[1:])
    answer = str(minutes(start, end, by))
    query = f"from={quote_plus(start['name'])}&to={quote_plus(end['name'])}&by={quote_plus(by)}"
    return Draft(
        intents=[
            f'How many minutes does it take from "{start["name"]}" to "{end["name"]}", "{by}"?',
            f'Get directions from "{start["name"]}" to "{end["name"]}", "{by}". How many minutes is it?',
            f'"{by}", how many minutes is the way from "{start["name"]}" to "{end["name"]}"?',
        ],
        start=HOME,
        eval=both(answer_is(answer), ends_at(f"{HOME}/directions?{query}")),
        subgoals=[
            subgoal("Open the directions form", path="^/map/directions"),
            subgoal("Enter where it starts and ends", page=[f'textbox "From" "{start["name"]}"', f'textbox "To" "{end["name"]}"']),
            subgoal(f'Choose "{by}"', path="^/map/directions", page=[f'textbox "To" "{end["name"]}"', f'radio "{by}" checked']),
            subgoal("Get the directions", page=[f"{by}: {answer} minutes"]),
        ],
        oracle=[
            click("link", "Directions"),
            type_into("From", start["name"]),
            type_into("To", end["name"]),
            click("radio", by),
            click("button", "Get directions"),
            stop(answer),
        ],
    )


def minutes_to_oldest_building(db, rng) -> Draft:
    district = rng.choice(all_articles(db, "District"))
    building = linked(db, district, "Oldest building")
    end = next(place for place in all_places(db) if place["id"] == building["place_id"])
    start = rng.choice([place for place in all_places(db) if place["id"] != end["id"]])
    by = rng.choice(list(PACES)[1:])
    answer = str(minutes(start, end, by))
    return Draft(
        intents=[
            f'How many minutes is it from "{start["name"]}", "{by}", to the oldest building of "{district["title"]}"?',
            f'Find the oldest building of "{district["title"]}" in the wiki. How many minutes is it there from "{start["name"]}", "{by}"?',
            f'I start at "{start["name"]}" and go "{by}": how many minutes to the oldest building of "{district["title"]}"?',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=[
            subgoal(f'Open the wiki article of "{district["title"]}"', path=f"^/map/wiki/article/{district['id']}$"),
            subgoal("See its oldest building on the map", path=f"^/map/place/{end['id']}$"),
            subgoal("Open the directions to it", path="^/map/directions", page=[f'textbox "To" "{end["name"]}"']),
            subgoal(f'Get the directions from "{start["name"]}"', page=[f'textbox "From" "{start["name"]}"', f"{by}: {answer} minutes"]),
        ],
        oracle=[
            *_wiki_article("Districts", district["title"]),
            click("link", building["title"]),
            click("link", "See on the map"),
            click("link", "Directions to here"),
            type_into("From", start["name"]),
            click("radio", by),
            click("button", "Get directions"),
            stop(answer),
        ],
    )


def phone_of_nearest(db, rng) -> Draft:
    here, category, place = nearest(db, rng)
    return Draft(
        intents=[
            f'What is the phone of the "{category}" nearest to "{here["name"]}"?',
            f'Find the nearest "{category}" to "{here["name"]}" and tell me its phone',
            f'I am at "{here["name"]}". Which phone does the nearest "{category}" have?',
        ],
        start=HOME,
        eval=answer_is(place["phone"]),
        subgoals=nearest_subgoals(here, category, place),
        oracle=[*to_nearest(here, category, place), stop(place["phone"])],
    )


def address_of_first_to_open(db, rng) -> Draft:
    category, district, place = leader(db, rng, "Opens first")
    return Draft(
        intents=[
            f'What is the address of the "{category}" in "{district}" that opens first?',
            f'Of all places of the category "{category}" in "{district}", which address has the one that opens first?',
            f'Tell me the address of the "{category}" that opens first in the district "{district}"',
        ],
        start=HOME,
        eval=answer_is(place["address"]),
        subgoals=leader_subgoals(category, district, place, "Opens first"),
        oracle=[*to_leader(category, district, place, "Opens first"), stop(place["address"])],
    )


def save_best_rated(db, rng) -> Draft:
    category, district, place = leader(db, rng, "Best rated")
    chosen, note = rng.choice(LISTS[1:]), phrase(rng)
    saved = ("SELECT 1 FROM map_saved WHERE place_id = ? AND list = ? AND note = ?", place["id"], chosen, note)
    find = leader_subgoals(category, district, place, "Best rated")[1:]
    return Draft(
        intents=[
            f'Save the best rated "{category}" in "{district}" in my list "{chosen}" with the note "{note}"',
            f'Add to my list "{chosen}" the "{category}" in "{district}" that has the best rating, note "{note}"',
            f'Find the best rated "{category}" in "{district}". Save it: list "{chosen}", note "{note}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/saved", "main", [f"{place['name']} {chosen}: {note}"])),
        subgoals=[*find, subgoal(f'Save it in "{chosen}"', db=saved)],
        oracle=[*to_leader(category, district, place, "Best rated"), *saving(chosen, note), stop()],
    )


def save_in_new_list(db, rng) -> Draft:
    place, name, note = _unsaved(db, rng), phrase(rng).capitalize(), phrase(rng)
    saved = ("SELECT 1 FROM map_saved WHERE place_id = ? AND list = ? AND note = ?", place["id"], name, note)
    return Draft(
        intents=[
            f'Create the list "{name}" and save "{place["name"]}" in it with the note "{note}"',
            f'Make a new list "{name}", then save "{place["name"]}" in that list, note "{note}"',
            f'I need a new list "{name}" with the place "{place["name"]}" and the note "{note}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/saved", "main", [f"{place['name']} {name}: {note}"])),
        subgoals=[
            subgoal("Open the saved places", path="^/map/saved"),
            subgoal(f'Create the list "{name}"', db=("SELECT 1 FROM map_lists WHERE name = ?", name)),
            subgoal(f'Open the place "{place["name"]}"', path=f"^/map/place/{place['id']}$"),
            subgoal(f'Save it in "{name}"', db=saved),
        ],
        oracle=[
            click("link", "Saved places"),
            type_into("New list", name),
            click("button", "Create list"),
            *search(place["name"]),
            *saving(name, note),
            stop(),
        ],
    )


def change_saved_places(db, rng) -> Draft:
    rows = db.execute("SELECT p.id, p.name, s.list FROM map_saved s JOIN map_places p ON p.id = s.place_id ORDER BY p.name").fetchall()
    first, second = rng.sample(rows, 2)
    chosen, note = rng.choice([name for name in LISTS if name != first["list"]]), phrase(rng)
    changed = ("SELECT 1 FROM map_saved WHERE place_id = ? AND list = ? AND note = ?", first["id"], chosen, note)
    return Draft(
        intents=[
            f'Move the saved place "{first["name"]}" to the list "{chosen}" with the note "{note}", then remove "{second["name"]}"',
            f'Among my saved places, give "{first["name"]}" the list "{chosen}" and the note "{note}", and remove "{second["name"]}"',
            f'Change my saved place "{first["name"]}": list "{chosen}", note "{note}". Then remove the saved place "{second["name"]}"',
        ],
        start=HOME,
        eval=page_shows(
            (f"{HOME}/saved", "main", [f"{first['name']} {chosen}: {note}"]),
            (f"{HOME}/place/{second['id']}/save", "main", ["This place is not saved"]),
        ),
        subgoals=[
            subgoal("Open the saved places", path="^/map/saved"),
            subgoal(f'Change "{first["name"]}"', db=changed),
            subgoal(f'Open the form for "{second["name"]}"', path=f"^/map/place/{second['id']}/save"),
            subgoal("Remove it", db=("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM map_saved WHERE place_id = ?)", second["id"])),
        ],
        oracle=[
            click("link", "Saved places"),
            click("link", f"Change {first['name']}"),
            select("List", chosen),
            type_into("Note", note),
            click("button", "Save changes"),
            click("link", f"Change {second['name']}"),
            click("button", "Remove"),
            click("button", "Yes, remove"),
            stop(),
        ],
    )


def report_problem(db, rng) -> Draft:
    place, details = rng.choice(all_places(db)), phrase(rng)
    problem, correct = rng.choice([("Wrong address", address(rng)), ("Wrong phone", phone(rng))])
    return Draft(
        intents=[
            f'Report the problem "{problem}" for "{place["name"]}": correct value "{correct}", details "{details}"',
            f'Tell the map that "{place["name"]}" has a "{problem}". The correct value is "{correct}", the details are "{details}"',
            f'Send a report about "{place["name"]}": problem "{problem}", correct value "{correct}", details "{details}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/place/{place['id']}", "main", [f"Your report: {problem}, {correct}, {details}"])),
        subgoals=[
            subgoal(f'Search for "{place["name"]}"', path=r"^/map/search\?q=.", page=[f'link "{place["name"]}"']),
            subgoal("Open the place", path=f"^/map/place/{place['id']}$"),
            subgoal("Open the report form", path=f"^/map/place/{place['id']}/report"),
            subgoal("Send the report", page=[f"Your report: {problem}, {correct}, {details}"]),
        ],
        oracle=[
            *search(place["name"]),
            click("link", "Report a problem"),
            select("Problem", problem),
            type_into("Correct value", correct),
            type_into("Details", details),
            click("button", "Send report"),
            stop(),
        ],
    )


def birthplace_of_designer(db, rng) -> Draft:
    district = rng.choice(all_articles(db, "District"))
    building = linked(db, district, "Oldest building")
    designer = linked(db, building, "Designer")
    answer = linked(db, designer, "Born in")["title"]
    return Draft(
        intents=[
            f'Where was the designer of the oldest building of "{district["title"]}" born?',
            f'In which district was the person born who designed the oldest building of "{district["title"]}"?',
            f'Look up in the wiki who designed the oldest building of "{district["title"]}". Where was that person born?',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=[
            subgoal("Open the wiki", path="^/map/wiki"),
            subgoal(f'Open the article of "{district["title"]}"', path=f"^/map/wiki/article/{district['id']}$"),
            subgoal("Open the article of its oldest building", path=f"^/map/wiki/article/{building['id']}$"),
            subgoal("Open the article of its designer", path=f"^/map/wiki/article/{designer['id']}$"),
        ],
        oracle=[
            click("link", "Wiki"),
            type_into("Search for", district["title"]),
            click("button", "Search"),
            click("link", district["title"]),
            click("link", building["title"]),
            click("link", designer["title"]),
            stop(answer),
        ],
    )


def mayor_of_district_with_most(db, rng) -> Draft:
    sort = rng.choice(list(ARTICLE_SORTS)[1:])
    district = db.execute(f"{ARTICLES} WHERE kind = 'District' ORDER BY {ARTICLE_SORTS[sort]}").fetchone()
    if district["title"] == min(article["title"] for article in all_articles(db, "District")):
        raise Unsuitable("the district leads the default order too")
    mayor = linked(db, district, "Mayor")
    return Draft(
        intents=[
            f'Open the wiki article about the mayor of the district with the "{sort}"',
            f'Show me the wiki article of whoever is mayor of the district that has the "{sort}"',
            f'Which district has the "{sort}"? Open the wiki article of its mayor',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/wiki/article/{mayor['id']}"),
        subgoals=[
            subgoal("Open the districts in the wiki", path="^/map/wiki/all/districts"),
            subgoal(f'Sort them by "{sort}"', path=f"^/map/wiki/all/districts.sort={quote_plus(sort)}".replace("+", ".")),
            subgoal("Open the first district", path=f"^/map/wiki/article/{district['id']}$"),
            subgoal("Open the article of its mayor", path=f"^/map/wiki/article/{mayor['id']}$"),
        ],
        oracle=[
            click("link", "Wiki"),
            click("link", "Districts"),
            select("Sort by", sort),
            click("button", "Show"),
            click("link", district["title"]),
            click("link", mayor["title"]),
            stop(),
        ],
    )


TEMPLATES = (
    minutes_between,
    minutes_to_oldest_building,
    phone_of_nearest,
    address_of_first_to_open,
    save_best_rated,
    save_in_new_list,
    change_saved_places,
    report_problem,
    birthplace_of_designer,
    mayor_of_district_with_most,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def all_places(db) -> list:
    return db.execute("SELECT * FROM map_places ORDER BY id").fetchall()


def _unsaved(db, rng):
    rows = db.execute("SELECT * FROM map_places WHERE id NOT IN (SELECT place_id FROM map_saved) ORDER BY id").fetchall()
    return rng.choice(rows)


def all_articles(db, kind: str) -> list:
    return db.execute("SELECT * FROM map_articles WHERE kind = ? ORDER BY id", (kind,)).fetchall()


def linked(db, article, label: str):
    """The article that a fact of `article` links to."""
    sql = "SELECT a.* FROM map_facts f JOIN map_articles a ON a.id = f.linked_id WHERE f.article_id = ? AND f.label = ?"
    return db.execute(sql, (article["id"], label)).fetchone()


def leader(db, rng, sort: str):
    """A category, a district and the place that is first in that order there, but not by name nor in the whole city."""
    cases = []
    places = db.execute(f"SELECT * FROM map_places ORDER BY {SORTS[sort]}").fetchall()
    saved = {row["place_id"] for row in db.execute("SELECT place_id FROM map_saved")}
    for category, district in sorted({(place["category"], place["district"]) for place in places}):
        everywhere = [place for place in places if place["category"] == category]
        here = [place for place in everywhere if place["district"] == district]
        if here[0] != everywhere[0] and here[0]["name"] != min(place["name"] for place in here) and here[0]["id"] not in saved:
            cases.append((category, district, here[0]))
    if not cases:
        raise Unsuitable("no place needs both the filter and the sort")
    return rng.choice(cases)


def leader_subgoals(category: str, district: str, place, sort: str) -> list:
    category_path = f"^/map/places.category={category}"
    district_path = f"{category_path}&district={quote_plus(district)}".replace("+", ".")
    sorted_path = f"{district_path}&sort={quote_plus(sort)}".replace("+", ".")
    return [
        subgoal(f'Open the category "{category}"', path=category_path),
        subgoal(f'Choose the district "{district}"', path=category_path, page=[f'combobox "District" "{district}"']),
        subgoal(f'Show the places there by "{sort}"', path=sorted_path),
        subgoal("Open the first place", path=f"^/map/place/{place['id']}$"),
    ]


def to_leader(category: str, district: str, place, sort: str) -> list:
    return [
        click("link", category),
        select("District", district),
        select("Sort by", sort),
        click("button", "Show"),
        click("link", place["name"]),
    ]


def search(name: str) -> list:
    return [click("link", "Search"), type_into("Search for", name), click("button", "Search"), click("link", name)]


def _wiki_article(kind: str, title: str) -> list:
    return [click("link", "Wiki"), click("link", kind), click("link", title)]


def saving(chosen: str, note: str) -> list:
    return [click("button", "Save place"), select("List", chosen), type_into("Note", note), click("button", "Save")]


def nearest(db, rng) -> tuple:
    """A place, a category, and the nearest place of that category where another kind of place is nearer."""
    places = all_places(db)
    here = rng.choice(places)
    category = rng.choice(sorted({place["category"] for place in places} - {here["category"]}))
    near = sorted((kilometers(here, place), place["id"]) for place in places)
    ranked = [entry for entry in near if entry[1] in {place["id"] for place in places if place["category"] == category}]
    if ranked[0][0] == ranked[1][0] or ranked[0] == near[1]:
        raise Unsuitable(f"no {category} stands out near {here['name']}")
    return here, category, next(place for place in places if place["id"] == ranked[0][1])


def nearest_subgoals(here, category: str, place) -> list:
    path = f"^/map/place/{here['id']}/nearby"
    return [
        subgoal(f'Open the place "{here["name"]}"', path=f"^/map/place/{here['id']}$"),
        subgoal("Open the nearby places", path=path),
        subgoal(f'Show only the category "{category}"', path=f"{path}.category={category}"),
        subgoal("Open the first place", path=f"^/map/place/{place['id']}$"),
    ]


def to_nearest(here, category: str, place) -> list:
    return [
        *search(here["name"]),
        click("link", "Nearby places"),
        select("Category", category),
        click("button", "Show"),
        click("link", place["name"]),
    ]
