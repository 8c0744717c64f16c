"""Task templates of the map in which what one page says is needed on the next."""

from __future__ import annotations

from environment.websites.authoring import Draft, answer_is, both, click, ends_at, page_shows, stop, subgoal, type_into
from environment.websites.map.contents import LISTS, PACES, kilometers, minutes
from environment.websites.map.tasks import (
    HOME,
    all_places,
    leader,
    leader_subgoals,
    nearest,
    nearest_subgoals,
    saving,
    to_leader,
    to_nearest,
)
from environment.websites.words import phrase


def minutes_from_best_rated(db, rng) -> Draft:
    category, district, start = leader(db, rng, "Best rated")
    end, by = _another(db, rng, start), rng.choice(list(PACES)[1:])
    answer = str(minutes(start, end, by))
    return Draft(
        intents=[
            f'How many minutes does it take from the best rated "{category}" in "{district}" to "{end["name"]}", "{by}"?',
            f'Find the best rated "{category}" in "{district}". How many minutes is it from there to "{end["name"]}", "{by}"?',
            f'"{by}", how many minutes is the way to "{end["name"]}" from the "{category}" with the best rating in "{district}"?',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=_route_subgoals(category, district, start, end, "Best rated", f"{by}: {answer} minutes"),
        oracle=[
            *to_leader(category, district, start, "Best rated"),
            *_between(start, end),
            click("radio", by),
            click("button", "Get directions"),
            stop(answer),
        ],
    )


def kilometers_from_first_to_open(db, rng) -> Draft:
    category, district, start = leader(db, rng, "Opens first")
    end = _another(db, rng, start)
    answer = str(kilometers(start, end))
    return Draft(
        intents=[
            f'How many km is it from the "{category}" in "{district}" that opens first to "{end["name"]}"?',
            f'Find the "{category}" that opens first in "{district}". What is the distance in km from there to "{end["name"]}"?',
            f'What is the distance in km to "{end["name"]}" from the "{category}" that opens first in the district "{district}"?',
        ],
        start=HOME,
        eval=answer_is(answer),
        subgoals=_route_subgoals(category, district, start, end, "Opens first", f"Distance: {answer} km"),
        oracle=[
            *to_leader(category, district, start, "Opens first"),
            *_between(start, end),
            click("button", "Get directions"),
            stop(answer),
        ],
    )


def save_and_tell_phone(db, rng) -> Draft:
    category, district, place = leader(db, rng, "Best rated")
    chosen, note = rng.choice(LISTS[1:]), phrase(rng)
    saved = ("SELECT 1 FROM map_saved WHERE place_id = ? AND list = ? AND note = ?", place["id"], chosen, note)
    return Draft(
        intents=[
            f'Save the best rated "{category}" in "{district}" in my list "{chosen}" with the note "{note}" and tell me its phone',
            f'Add to my list "{chosen}" the "{category}" in "{district}" that has the best rating, note "{note}". Which phone does it have?',
            f'Find the best rated "{category}" in "{district}". Save it: list "{chosen}", note "{note}". What is its phone?',
        ],
        start=HOME,
        eval=both(answer_is(place["phone"]), page_shows((f"{HOME}/saved", "main", [f"{place['name']} {chosen}: {note}"]))),
        subgoals=[
            *leader_subgoals(category, district, place, "Best rated")[1:],
            subgoal(f'Save it in "{chosen}"', db=saved),
        ],
        oracle=[*to_leader(category, district, place, "Best rated"), *saving(chosen, note), stop(place["phone"])],
    )


def open_nearest(db, rng) -> Draft:
    here, category, place = nearest(db, rng)
    return Draft(
        intents=[
            f'Open the page of the "{category}" nearest to "{here["name"]}"',
            f'Show me the nearest "{category}" to "{here["name"]}"',
            f'I am at "{here["name"]}". Go to the page of the nearest "{category}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/place/{place['id']}"),
        subgoals=nearest_subgoals(here, category, place),
        oracle=[*to_nearest(here, category, place), stop()],
    )


TEMPLATES = (
    minutes_from_best_rated,
    kilometers_from_first_to_open,
    save_and_tell_phone,
    open_nearest,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _another(db, rng, place):
    return rng.choice([other for other in all_places(db) if other["id"] != place["id"]])


def _between(start, end) -> list:
    return [click("link", "Directions"), type_into("From", start["name"]), type_into("To", end["name"])]


def _route_subgoals(category: str, district: str, start, end, sort: str, shown: str) -> list:
    ends = [f'textbox "From" "{start["name"]}"', f'textbox "To" "{end["name"]}"']
    return [
        *leader_subgoals(category, district, start, sort)[2:],
        subgoal("Enter where the way starts and ends", path="^/map/directions", page=ends),
        subgoal("Get the directions", page=[*ends, shown]),
    ]
