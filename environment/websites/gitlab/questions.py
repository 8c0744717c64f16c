"""Task templates of the code host: things to find out, and the pieces that all its templates share."""

from __future__ import annotations

import itertools
from collections import Counter

from environment.websites.authoring import Draft, Unsuitable, answer_is, click, ends_at, select, stop, subgoal
from environment.websites.gitlab.contents import LABELS, NONE, PROJECT_SORTS, USER, issues_query

HOME = "__GITLAB__"
EXTREMES = {"Oldest": "the oldest", "Most votes": "the one with the most votes", "Due first": "the one that is due first"}


def detail_of_extreme_issue(db, rng) -> Draft:
    project, label, sort, issue = _extreme(db, rng)
    column = rng.choice(["assignee", "author", "milestone"])
    if issue[column] == NONE:
        raise Unsuitable(f"the issue has no {column}")
    return Draft(
        intents=[
            f'In "{project}", of all issues with label "{label}", open or closed, what is the {column} of {EXTREMES[sort]}?',
            f'Look at the open and closed "{label}" issues of the project "{project}": name the {column} of {EXTREMES[sort]}',
            f'Tell me the {column} of {EXTREMES[sort]} among all "{label}" issues, open or closed, in "{project}"',
        ],
        start=HOME,
        eval=answer_is(issue[column]),
        subgoals=_to_extreme(project, label, sort, issue),
        oracle=[*_sorted(project, label, sort), click("link", issue["title"]), stop(issue[column])],
    )


def open_extreme_issue(db, rng) -> Draft:
    project, label, sort, issue = _extreme(db, rng)
    return Draft(
        intents=[
            f'In "{project}", of all issues with label "{label}", open or closed, show {EXTREMES[sort]}',
            f'Look at the open and closed "{label}" issues of the project "{project}" and go to the page of {EXTREMES[sort]}',
            f'Show me {EXTREMES[sort]} among all "{label}" issues, open or closed, in "{project}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/issues/{issue['id']}"),
        subgoals=_to_extreme(project, label, sort, issue),
        oracle=[*_sorted(project, label, sort), click("link", issue["title"]), stop()],
    )


def count_issues(db, rng) -> Draft:
    project, label, state = some_project(db, rng), rng.choice(LABELS), rng.choice(["Closed", "All"])
    count = len(listed(db, issues_query(project, state, label)))
    which = {"Closed": "closed issues", "All": "issues, open or closed,"}[state]
    return Draft(
        intents=[
            f'How many {which} with label "{label}" are there in the project "{project}"?',
            f'Count the {which} with label "{label}" in "{project}"',
            f'In "{project}", what is the number of {which} with label "{label}"?',
        ],
        start=HOME,
        eval=answer_is(str(count)),
        subgoals=[
            subgoal(f'Open the project "{project}"', path=f"^/gitlab/p/{project}"),
            subgoal("Open its issues", path=f"^/gitlab/p/{project}/issues"),
            subgoal(f'Choose the state "{state}"', page=[f'combobox "State" "{state}"']),
            subgoal(f'Filter by label "{label}"', path=f"^/gitlab/p/{project}/issues.*state={state}&label={label}&assignee=Anyone"),
        ],
        oracle=[
            *to_issues(project),
            select("State", state),
            select("Label", label),
            click("button", "Apply"),
            stop(str(count)),
        ],
    )


def reviewer_of_merged(db, rng) -> Draft:
    merged = db.execute("SELECT * FROM gitlab_merges WHERE state = 'Merged' ORDER BY id").fetchall()
    merge = rng.choice(only_ones(merged, "author"))
    project, person = merge["project"], merge["author"]
    return Draft(
        intents=[
            f'Who was the reviewer of the merged merge request by "{person}" in the project "{project}"?',
            f'In "{project}", find the merge request of "{person}" that was merged and name its reviewer',
            f'Name the reviewer of the merged work of "{person}" in "{project}"',
        ],
        start=HOME,
        eval=answer_is(merge["reviewer"]),
        subgoals=[
            subgoal(f'Open the project "{project}"', path=f"^/gitlab/p/{project}"),
            subgoal("Open its merge requests", path=f"^/gitlab/p/{project}/merge_requests"),
            subgoal(f'Filter by the state "Merged" and the author "{person}"', path=f"state=Merged&author={person}"),
            subgoal("Open the merge request", path=f"^/gitlab/merge_requests/{merge['id']}$"),
        ],
        oracle=[
            click("link", project),
            click("link", "Merge requests"),
            select("State", "Merged"),
            select("Author", person),
            click("button", "Apply"),
            click("link", merge["title"]),
            stop(merge["reviewer"]),
        ],
    )


def access_of_member(db, rng) -> Draft:
    project = some_project(db, rng)
    person = rng.choice(team(db, project))
    until = db.execute("SELECT until FROM gitlab_members WHERE project = ? AND person = ?", (project, person)).fetchone()[0]
    return Draft(
        intents=[
            f'Until when does "{person}" have access to the project "{project}"?',
            f'When does the access of "{person}" to "{project}" end?',
            f'Find the last day of access of the member "{person}" in "{project}"',
        ],
        start=HOME,
        eval=answer_is(until),
        subgoals=[
            subgoal(f'Open the project "{project}"', path=f"^/gitlab/p/{project}"),
            subgoal("Open the menu with more pages", path=f"^/gitlab/p/{project}", page=['link "Members"']),
            subgoal("Open its members", path=f"^/gitlab/p/{project}/member"),
            subgoal(f'Open the member "{person}"', path=f"^/gitlab/p/{project}/member/{person}$"),
        ],
        oracle=[*to_members(project), click("link", person), stop(until)],
    )


def author_in_starred_project(db, rng) -> Draft:
    sort, label, column = rng.choice([*PROJECT_SORTS][1:]), rng.choice(LABELS), rng.choice(["author", "assignee"])
    project = db.execute(f"SELECT name FROM gitlab_projects ORDER BY {PROJECT_SORTS[sort]}").fetchone()[0]
    issues = listed(db, issues_query(project, label=label))
    if not issues:
        raise Unsuitable("no such issue")
    return Draft(
        intents=[
            f'In the project with the {sort.lower()}, what is the {column} of the newest open issue with label "{label}"?',
            f'Find the project that has the {sort.lower()} and tell me the {column} of its newest open "{label}" issue',
            f'Name the {column} of the newest open issue with label "{label}" in the project with the {sort.lower()}',
        ],
        start=HOME,
        eval=answer_is(issues[0][column]),
        subgoals=[
            subgoal(f"Sort the projects by {sort.lower()}", path=f"^/gitlab/?.sort={sort.split()[0]}|^/gitlab/p/{project}"),
            subgoal("Open the issues of the first project", path=f"^/gitlab/p/{project}/issues"),
            subgoal(f'Filter by label "{label}"', path=f"^/gitlab/p/{project}/issues.*label={label}"),
            subgoal("Open the newest issue", path=f"^/gitlab/issues/{issues[0]['id']}$"),
        ],
        oracle=[
            select("Sort by", sort),
            click("button", "Sort"),
            *to_issues(project),
            select("Label", label),
            click("button", "Apply"),
            click("link", issues[0]["title"]),
            stop(issues[0][column]),
        ],
    )


TEMPLATES = (
    detail_of_extreme_issue,
    open_extreme_issue,
    count_issues,
    reviewer_of_merged,
    access_of_member,
    author_in_starred_project,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def listed(db, query: tuple) -> list:
    """The rows of a query of ``contents``."""
    sql, *arguments = query
    return db.execute(sql, arguments).fetchall()


def some_project(db, rng) -> str:
    return rng.choice([row["name"] for row in db.execute("SELECT name FROM gitlab_projects ORDER BY name")])


def team(db, project: str) -> list[str]:
    """The project's members other than the user."""
    rows = db.execute("SELECT person FROM gitlab_members WHERE project = ? AND person != ? ORDER BY person", (project, USER))
    return [row["person"] for row in rows]


def only_ones(rows: list, *columns: str) -> list:
    """The rows that no other row of the same project equals in `columns`."""
    keys = [(row["project"], *(row[column] for column in columns)) for row in rows]
    counts = Counter(keys)
    return [row for row, key in zip(rows, keys) if counts[key] == 1]


def to_issues(project: str) -> list:
    return [click("link", project), click("link", "Issues")]


def to_members(project: str) -> list:
    return [click("link", project), click("button", "More"), click("link", "Members")]


def _extreme(db, rng) -> tuple:
    """Project, label, sort and the first issue in that order, where it does not come first without sorting."""
    found = []
    for (project,) in db.execute("SELECT name FROM gitlab_projects ORDER BY name").fetchall():
        for label, sort in itertools.product(LABELS, EXTREMES):
            newest = listed(db, issues_query(project, "All", label))
            issues = listed(db, issues_query(project, "All", label, sort=sort))
            if issues[:1] != newest[:1]:
                found.append((project, label, sort, issues[0]))
    return rng.choice(found)


def _to_extreme(project: str, label: str, sort: str, issue) -> list:
    return [
        subgoal(f'Open the issues of "{project}"', path=f"^/gitlab/p/{project}/issues"),
        subgoal(f'Choose the label "{label}"', page=[f'combobox "Label" "{label}"']),
        subgoal(f"Sort by {sort.lower()}", path=f"state=All&label={label}&.*sort={sort.replace(' ', '.')}"),
        subgoal("Open the first issue", path=f"^/gitlab/issues/{issue['id']}$"),
    ]


def _sorted(project: str, label: str, sort: str) -> list:
    return [
        *to_issues(project),
        select("State", "All"),
        select("Label", label),
        select("Sort by", sort),
        click("button", "Apply"),
    ]
