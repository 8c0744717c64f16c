"""The city: its tables, how a world fills them, and how far apart two places are."""

from __future__ import annotations

import math

from environment.websites.words import ADJECTIVES, PEOPLE, distinct, phrase

CATEGORIES = ("Bakery", "Cafe", "Cinema", "Hotel", "Library", "Museum", "Park", "Pharmacy", "School")
DISTRICTS = ("Center", "East", "North", "Old town", "Riverside", "South", "West")
LISTS = ("Favorites", "Holidays", "Weekend")
PROBLEMS = ("Closed for good", "Wrong address", "Wrong opening hour", "Wrong phone")
WORKS = ("Baker", "Doctor", "Painter", "Singer", "Teacher", "Writer")
PACES = {"By car": 2, "By bike": 4, "On foot": 12}  # minutes a kilometer

SCHEMA = """
CREATE TABLE map_districts (name TEXT PRIMARY KEY, x INTEGER, y INTEGER);
CREATE TABLE map_places (id INTEGER PRIMARY KEY, name TEXT, category TEXT, district TEXT, address TEXT, phone TEXT,
                         opens INTEGER, rating INTEGER, x INTEGER, y INTEGER);
CREATE TABLE map_reviews (place_id INTEGER, author TEXT, stars INTEGER, body TEXT);
CREATE TABLE map_reports (id INTEGER PRIMARY KEY, place_id INTEGER, problem TEXT, correct TEXT, details TEXT);
CREATE TABLE map_lists (name TEXT PRIMARY KEY);
CREATE TABLE map_saved (place_id INTEGER PRIMARY KEY, list TEXT, note TEXT);
CREATE TABLE map_articles (id INTEGER PRIMARY KEY, title TEXT, kind TEXT, place_id INTEGER);
CREATE TABLE map_facts (article_id INTEGER, label TEXT, value TEXT, linked_id INTEGER);
"""


def kilometers(start, end) -> float:
    """Straight-line distance; the grid of x and y is 100 meters wide."""
    return round(math.hypot(start["x"] - end["x"], start["y"] - end["y"]) / 10, 1)


def minutes(start, end, by: str) -> int:
    return max(1, round(kilometers(start, end) * PACES[by]))


def clock(opens: int) -> str:
    """
    >>> clock(440)
    '7:20'
    """
    return f"{opens // 60}:{opens % 60:02d}"


def address(rng) -> str:
    return f"{rng.choice(ADJECTIVES).capitalize()} street {rng.randint(2, 99)}"


def phone(rng) -> str:
    return f"{rng.randint(11, 99)}-{rng.randint(101, 999)}"


def populate(db, rng) -> None:
    """Four districts and five categories with 7-9 places each; ratings and opening hours differ within a category."""
    districts = rng.sample(DISTRICTS, 4)
    corners = [(0, 0), (50, 0), (0, 50), (50, 50)]
    db.executemany("INSERT INTO map_districts VALUES (?, ?, ?)", [(name, *corner) for name, corner in zip(districts, corners)])
    names = iter(distinct(rng, phrase, 60))
    for category in sorted(rng.sample(CATEGORIES, 5)):
        size = rng.randint(7, 9)
        titles = [next(names).capitalize() for _ in range(size - 1)]
        titles.append(f"New {titles[0].lower()}")  # a near-duplicate, which a search finds too
        ratings, hours = rng.sample(range(40, 99), size), rng.sample(range(36, 66), size)
        for title, rating, hour in zip(titles, ratings, hours):
            here = rng.randrange(4)
            x, y = corners[here][0] + rng.randint(3, 46), corners[here][1] + rng.randint(3, 46)
            _add_place(db, rng, (title, category, districts[here], address(rng), phone(rng), hour * 10, rating, x, y))
    places = db.execute("SELECT * FROM map_places ORDER BY id").fetchall()
    db.executemany("INSERT INTO map_lists VALUES (?)", [(name,) for name in LISTS])
    saved = [(place["id"], rng.choice(LISTS), phrase(rng)) for place in rng.sample(places, 3)]
    db.executemany("INSERT INTO map_saved VALUES (?, ?, ?)", saved)
    _write_wiki(db, rng, places, districts)


def _add_place(db, rng, row) -> None:
    columns = "(name, category, district, address, phone, opens, rating, x, y)"
    place = db.execute(f"INSERT INTO map_places {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    rows = [(place, author, rng.randint(1, 5), phrase(rng)) for author in rng.sample(PEOPLE, rng.randint(1, 3))]
    db.executemany("INSERT INTO map_reviews VALUES (?, ?, ?, ?)", rows)


def _write_wiki(db, rng, places, districts) -> None:
    """Each district's article names its mayor and its oldest building, and that building's article its designer."""
    people = iter(rng.sample(PEOPLE, 2 * len(districts)))
    articles = {name: _add_article(db, name, "District") for name in districts}
    sizes = zip(rng.sample(range(2, 30), len(districts)), rng.sample(range(31, 99), len(districts)))
    for name, (bridges, schools) in zip(districts, sizes):
        place = rng.choice([place for place in places if place["district"] == name] or places)
        mayor, designer = next(people), next(people)
        building = _add_article(db, place["name"], "Building", place["id"])
        ids = {person: _add_article(db, person, "Person") for person in (mayor, designer)}
        _add_facts(db, articles[name], ("Mayor", mayor, ids[mayor]), ("Oldest building", place["name"], building))
        _add_facts(db, articles[name], ("Bridges", bridges, None), ("Schools", schools, None))
        _add_facts(db, building, ("Kind", place["category"], None), ("Designer", designer, ids[designer]))
        _add_facts(db, building, ("Age", f"{rng.randint(101, 400)} years", None), ("Floors", rng.randint(2, 30), None))
        for person in (mayor, designer):
            born = rng.choice(districts)
            _add_facts(db, ids[person], ("Born in", born, articles[born]), ("Work", rng.choice(WORKS), None))
            _add_facts(db, ids[person], ("Age", f"{rng.randint(30, 90)} years", None))


def _add_article(db, title: str, kind: str, place: int | None = None) -> int:
    return db.execute("INSERT INTO map_articles (title, kind, place_id) VALUES (?, ?, ?)", (title, kind, place)).lastrowid


def _add_facts(db, article: int, *facts) -> None:
    db.executemany("INSERT INTO map_facts VALUES (?, ?, ?, ?)", [(article, *fact) for fact in facts])
