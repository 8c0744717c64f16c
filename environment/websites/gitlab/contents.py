"""What the code host holds: tables, contents, and the queries that pages and tasks share."""

from __future__ import annotations

import re

from environment.websites.words import ADJECTIVES, NOUNS, PEOPLE, distinct, phrase

USER = "casey"  # who is logged in
LABELS = ("Bug", "Design", "Docs", "Feature")
MILESTONES = ("Alpha", "Beta", "Final")
ROLES = ("Guest", "Reporter", "Developer", "Maintainer")
VISIBILITIES = ("Private", "Internal", "Public")
LICENSES = ("None", "Apache", "GPL", "MIT")
STATES = ("Open", "Closed", "All")
MERGE_STATES = ("Open", "Merged", "Closed", "All")
ANY_LABEL, ANYONE, NONE = "Any label", "Anyone", "None"
PAGE = 5

SCHEMA = """
CREATE TABLE gitlab_projects (name TEXT PRIMARY KEY, owner TEXT, description TEXT, visibility TEXT, license TEXT,
                              stars INTEGER);
CREATE TABLE gitlab_members (project TEXT, person TEXT, role TEXT, until TEXT, PRIMARY KEY (project, person));
CREATE TABLE gitlab_issues (id INTEGER PRIMARY KEY, project TEXT, title TEXT, description TEXT, author TEXT, assignee TEXT,
                            label TEXT, milestone TEXT, due INTEGER, votes INTEGER, state TEXT DEFAULT 'Open');
CREATE TABLE gitlab_comments (id INTEGER PRIMARY KEY, issue_id INTEGER, author TEXT, body TEXT);
CREATE TABLE gitlab_merges (id INTEGER PRIMARY KEY, project TEXT, title TEXT, branch TEXT, author TEXT, reviewer TEXT,
                            commits INTEGER, state TEXT);
CREATE TABLE gitlab_todos (issue_id INTEGER PRIMARY KEY, done INTEGER DEFAULT 0);
CREATE TABLE gitlab_profile (name TEXT, status TEXT, availability TEXT);
"""
SORTS = {"Newest": "id DESC", "Oldest": "id", "Most votes": "votes DESC", "Due first": "due"}
PROJECT_SORTS = {"Name": "name", "Most stars": "stars DESC", "Fewest stars": "stars"}


def populate(db, rng) -> None:
    """Six projects with 6-13 issues each; stars differ, and votes and due dates differ within a project."""
    people = rng.sample(PEOPLE, 12)
    titles = iter(distinct(rng, lambda r: phrase(r).capitalize(), 120))
    for name, stars in zip(_project_names(rng), rng.sample(range(3, 99), 6)):
        team = rng.sample(people, 4)
        project = (name, team[0], phrase(rng).capitalize(), rng.choice(VISIBILITIES), rng.choice(LICENSES), stars)
        db.execute("INSERT INTO gitlab_projects VALUES (?, ?, ?, ?, ?, ?)", project)
        members = [(name, USER, "Maintainer", date(28))]
        members += [(name, person, rng.choice(ROLES), date(rng.randint(1, 28))) for person in team]
        db.executemany("INSERT INTO gitlab_members VALUES (?, ?, ?, ?)", members)
        _add_issues(db, rng, name, team, titles)
        _add_merges(db, rng, name, team, titles)
    _add_comments(db, rng, people)
    db.execute("INSERT INTO gitlab_profile VALUES (?, '', 'Available')", (USER,))


def _project_names(rng) -> list[str]:
    """Six names; the last begins like the first."""
    first, *adjectives = rng.sample(ADJECTIVES, 5)
    return [f"{adjective}-{noun}" for adjective, noun in zip([first, *adjectives, first], rng.sample(NOUNS, 6))]


def _add_issues(db, rng, project, team, titles) -> None:
    size = rng.randint(6, 13)
    rows = [
        (
            project,
            next(titles),
            phrase(rng).capitalize(),
            *(rng.choice(team), rng.choice(team), rng.choice(LABELS), rng.choice((NONE, *MILESTONES))),
            *(due, votes, rng.choice(("Open", "Open", "Closed"))),
        )
        for due, votes in zip(rng.sample(range(1, 29), size), rng.sample(range(1, 60), size))
    ]
    columns = "(project, title, description, author, assignee, label, milestone, due, votes, state)"
    db.executemany(f"INSERT INTO gitlab_issues {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _add_merges(db, rng, project, team, titles) -> None:
    rows = []
    for state in ("Open", "Open", "Merged", "Merged", "Merged", "Closed"):
        author = rng.choice(team)
        reviewer = NONE if state == "Open" else rng.choice([person for person in team if person != author])
        rows.append((project, next(titles), phrase(rng).replace(" ", "-"), author, reviewer, rng.randint(1, 9), state))
    rng.shuffle(rows)
    columns = "(project, title, branch, author, reviewer, commits, state)"
    db.executemany(f"INSERT INTO gitlab_merges {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _add_comments(db, rng, people) -> None:
    """Up to three comments an issue, and four to-dos."""
    issues = [row[0] for row in db.execute("SELECT id FROM gitlab_issues ORDER BY id")]
    rows = [(issue, rng.choice(people), phrase(rng)) for issue in issues for _ in range(rng.randint(0, 3))]
    db.executemany("INSERT INTO gitlab_comments (issue_id, author, body) VALUES (?, ?, ?)", rows)
    db.executemany("INSERT INTO gitlab_todos (issue_id) VALUES (?)", [(issue,) for issue in rng.sample(issues, 4)])


def date(day: int) -> str:
    """Every date is in May: 14 -> "May 14"."""
    return f"May {day}"


def day_of(text: str) -> int | None:
    """"May 14" -> 14, or None for anything else."""
    match = re.fullmatch(r"May ([1-9]|[12]\d|3[01])", text)
    return int(match[1]) if match else None


def issues_query(project, state="Open", label=ANY_LABEL, assignee=ANYONE, sort="Newest") -> tuple:
    """SQL and arguments for the issues of a project that pass the filters."""
    wanted = {"project": project}
    wanted |= {"state": state} if state != "All" else {}
    wanted |= {"label": label} if label != ANY_LABEL else {}
    wanted |= {"assignee": assignee} if assignee != ANYONE else {}
    return _matching("gitlab_issues", wanted, SORTS.get(sort, "id DESC"))


def merges_query(project, state="Open", author=ANYONE) -> tuple:
    wanted = {"project": project}
    wanted |= {"state": state} if state != "All" else {}
    wanted |= {"author": author} if author != ANYONE else {}
    return _matching("gitlab_merges", wanted, "id DESC")


def _matching(table, wanted, order) -> tuple:
    where = " AND ".join(f"{column} = ?" for column in wanted)
    return (f"SELECT * FROM {table} WHERE {where} ORDER BY {order}", *wanted.values())
