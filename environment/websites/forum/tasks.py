"""Task templates of the forum."""

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
from environment.websites.forum.site import FLAIRS, PAGE, POSTS, SORTS, USER, ZONES
from environment.websites.words import phrase

HOME = "__FORUM__"


def create_post(db, rng) -> Draft:
    forum = _forum(db, rng)
    title, body, flair = phrase(rng).capitalize(), phrase(rng), rng.choice(FLAIRS[1:])
    post = db.execute("SELECT max(id) + 1 FROM forum_posts").fetchone()[0]
    return Draft(
        intents=[
            f'Create a post titled "{title}" in the forum "{forum}" with the body "{body}" and the flair "{flair}"',
            f'In "{forum}", post "{title}" with the text "{body}", flair "{flair}"',
            f'Submit a new "{flair}" post to "{forum}": title "{title}", body "{body}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{post}", "main", [title, body, flair, forum])),
        subgoals=[
            subgoal("Open the form for a new post", path="^/forum/submit"),
            subgoal(f'Choose the forum "{forum}"', path="^/forum/submit", page=[f'combobox "Forum" "{forum}"']),
            subgoal(f'Enter the title "{title}" and the body', page=[f'textbox "Title" "{title}"', f'textbox "Body" "{body}"']),
            subgoal("Submit the post", db=("SELECT 1 FROM forum_posts WHERE title = ? AND author = ?", title, USER)),
        ],
        oracle=[
            click("link", "Create post"),
            select("Forum", forum),
            type_into("Title", title),
            type_into("Body", body),
            select("Flair", flair),
            click("button", "Submit"),
            stop(),
        ],
    )


def comment_on_post(db, rng) -> Draft:
    post, comment = some_post(db, rng), phrase(rng)
    return Draft(
        intents=[
            f'Find the post "{post["title"]}" and comment "{comment}" on it',
            f'Comment "{comment}" on the post "{post["title"]}"',
            f'Leave the comment "{comment}" under "{post["title"]}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{post['id']}", "main", [f"{USER}: {comment}"])),
        subgoals=[
            subgoal("Open the search page", path="^/forum/search"),
            subgoal(f'Search for "{post["title"]}"', path=r"^/forum/search\?q=.", page=[f'link "{post["title"]}"']),
            subgoal("Open the post", path=f"^/forum/post/{post['id']}$"),
            subgoal("Add the comment", db=("SELECT 1 FROM forum_comments WHERE post_id = ? AND body = ?", post["id"], comment)),
        ],
        oracle=[
            *search(post["title"]),
            type_into("Your comment", comment),
            click("button", "Add comment"),
            stop(),
        ],
    )


def author_of_extreme_post(db, rng) -> Draft:
    forum = _forum(db, rng)
    sort, what = rng.choice([("top", "the most points"), ("commented", "the most comments")])
    post = _first(db, forum, sort)
    return Draft(
        intents=[
            f'Who wrote the post with {what} in the forum "{forum}"?',
            f'Name the author of the post that has {what} in "{forum}"',
            f'In "{forum}", whose post has {what}?',
        ],
        start=HOME,
        eval=answer_is(post["author"]),
        subgoals=[
            subgoal(f'Open the forum "{forum}"', path=f"^/forum/f/{forum}"),
            subgoal("Open the sort menu", path=f"^/forum/f/{forum}", page=[f'link "{SORTS[sort][0]}"']),
            subgoal(f"Sort by {SORTS[sort][0].lower()}", path=f"^/forum/f/{forum}.*sort={sort}"),
            subgoal("Open the first post and see who wrote it", path=f"^/forum/post/{post['id']}$"),
        ],
        oracle=[*_sorted(db, forum, sort), click("link", post["title"]), stop(post["author"])],
    )


def vote_on_extreme_post(db, rng) -> Draft:
    forum, (button, value) = _forum(db, rng), rng.choice([("Upvote", 1), ("Downvote", -1)])
    sort, what = rng.choice([("top", "with the most points"), ("commented", "with the most comments")])
    post = _first(db, forum, sort)
    return Draft(
        intents=[
            f'{button} the post {what} in the forum "{forum}"',
            f'In "{forum}", {button.lower()} the post {what}',
            f'Give a {button.lower()} to the post {what} in "{forum}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{post['id']}", "main", [f"you voted {button[:-4].lower()}"])),
        subgoals=[
            subgoal(f'Open the forum "{forum}"', path=f"^/forum/f/{forum}"),
            subgoal(f"Sort by {SORTS[sort][0].lower()}", path=f"^/forum/f/{forum}.*sort={sort}"),
            subgoal("Open the first post", path=f"^/forum/post/{post['id']}$"),
            subgoal(f"{button} it", db=("SELECT 1 FROM forum_posts WHERE id = ? AND vote = ?", post["id"], value)),
        ],
        oracle=[*_sorted(db, forum, sort), click("link", post["title"]), click("button", button), stop()],
    )


def count_comments(db, rng) -> Draft:
    post = some_post(db, rng)
    count = db.execute("SELECT count(*) FROM forum_comments WHERE post_id = ?", (post["id"],)).fetchone()[0]
    return Draft(
        intents=[
            f'How many comments does the post "{post["title"]}" have?',
            f'Tell me the number of comments on "{post["title"]}"',
            f'Count the comments under the post "{post["title"]}"',
        ],
        start=HOME,
        eval=answer_is(str(count)),
        subgoals=[
            subgoal("Open the search page", path="^/forum/search"),
            subgoal("Enter the title as search text", path="^/forum/search", page=[f'textbox "Search for" "{post["title"]}"']),
            subgoal("Run the search", path=r"^/forum/search\?q=.", page=[f'link "{post["title"]}"']),
            subgoal("Open the post", path=f"^/forum/post/{post['id']}$"),
        ],
        oracle=[*search(post["title"]), stop(str(count))],
    )


def edit_own_post(db, rng) -> Draft:
    post = rng.choice(db.execute("SELECT * FROM forum_posts WHERE author = ?", (USER,)).fetchall())
    body, flair = phrase(rng), rng.choice([flair for flair in FLAIRS if flair != post["flair"]])
    return Draft(
        intents=[
            f'Change the body of my post "{post["title"]}" to "{body}" and its flair to "{flair}"',
            f'Edit my post "{post["title"]}": body "{body}", flair "{flair}"',
            f'My post "{post["title"]}" should have the text "{body}" and the flair "{flair}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{post['id']}", "main", [body, flair])),
        subgoals=[
            subgoal("Open my profile", path=f"^/forum/user/{USER}"),
            subgoal(f'Open the post "{post["title"]}"', path=f"^/forum/post/{post['id']}$"),
            subgoal("Open its edit form", path=f"^/forum/post/{post['id']}/edit"),
            subgoal("Save the new body and flair", db=("SELECT 1 FROM forum_posts WHERE id = ? AND body = ? AND flair = ?", post["id"], body, flair)),
        ],
        oracle=[
            click("link", "Profile"),
            click("link", post["title"]),
            click("link", "Edit"),
            type_into("Body", body),
            select("Flair", flair),
            click("button", "Save"),
            stop(),
        ],
    )


def delete_own_post(db, rng) -> Draft:
    post = rng.choice(db.execute("SELECT * FROM forum_posts WHERE author = ?", (USER,)).fetchall())
    return Draft(
        intents=[
            f'Delete my post "{post["title"]}"',
            f'Remove the post "{post["title"]}" that I wrote',
            f'Take down my post "{post["title"]}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{post['id']}", "main", ["Page not found"])),
        subgoals=[
            subgoal("Open my profile", path=f"^/forum/user/{USER}"),
            subgoal(f'Open the post "{post["title"]}"', path=f"^/forum/post/{post['id']}$"),
            subgoal("Ask to delete it", path=f"^/forum/post/{post['id']}$", page=['button "Yes, delete"']),
            subgoal("Confirm", page=["Post deleted."]),
        ],
        oracle=[
            click("link", "Profile"),
            click("link", post["title"]),
            click("button", "Delete"),
            click("button", "Yes, delete"),
            stop(),
        ],
    )


def update_settings(db, rng) -> Draft:
    now = db.execute("SELECT zone FROM forum_profile").fetchone()["zone"]
    bio, zone = phrase(rng), rng.choice([zone for zone in ZONES if zone != now])
    return Draft(
        intents=[
            f'Set my bio to "{bio}" and my time zone to "{zone}"',
            f'Update my profile: bio "{bio}", time zone "{zone}"',
            f'Change my time zone to "{zone}" and write "{bio}" as my bio',
        ],
        start=HOME,
        eval=both(page_shows((f"{HOME}/user/{USER}", "main", [bio, f"Time zone {zone}"])), ends_at(f"{HOME}/user/{USER}")),
        subgoals=[
            subgoal("Open my profile", path=f"^/forum/user/{USER}"),
            subgoal("Open the settings", path="^/forum/settings"),
            subgoal("Enter the bio and the time zone", page=[f'textbox "Bio" "{bio}"', f'combobox "Time zone" "{zone}"']),
            subgoal("Save", db=("SELECT 1 FROM forum_profile WHERE bio = ? AND zone = ?", bio, zone)),
        ],
        oracle=[
            click("link", "Profile"),
            click("link", "Edit settings"),
            type_into("Bio", bio),
            select("Time zone", zone),
            click("button", "Save settings"),
            stop(),
        ],
    )


def open_author_page(db, rng) -> Draft:
    post = some_post(db, rng)
    return Draft(
        intents=[
            f'Open the profile of whoever wrote the post "{post["title"]}"',
            f'Go to the user page of the author of "{post["title"]}"',
            f'Show me the profile page of the person who posted "{post["title"]}"',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/user/{post['author']}"),
        subgoals=[
            subgoal("Open the search page", path="^/forum/search"),
            subgoal(f'Search for "{post["title"]}"', path=r"^/forum/search\?q=.", page=[f'link "{post["title"]}"']),
            subgoal("Open the post", path=f"^/forum/post/{post['id']}$"),
            subgoal("Open its author's page", path=f"^/forum/user/{post['author']}$"),
        ],
        oracle=[*search(post["title"]), click("link", post["author"]), stop()],
    )


def subscribe_to_two(db, rng) -> Draft:
    first, second = rng.sample([row["name"] for row in db.execute("SELECT name FROM forum_forums ORDER BY name")], 2)
    subscribed = "SELECT 1 FROM forum_forums WHERE name = ? AND subscribed = 1"
    return Draft(
        intents=[
            f'Subscribe to the forums "{first}" and "{second}"',
            f'Join "{first}", then "{second}"',
            f'I want to follow the forums "{first}" and "{second}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/f/{first}", "main", ["Unsubscribe"]), (f"{HOME}/f/{second}", "main", ["Unsubscribe"])),
        subgoals=[
            subgoal(f'Open the forum "{first}"', path=f"^/forum/f/{first}"),
            subgoal(f'Subscribe to "{first}"', db=(subscribed, first)),
            subgoal(f'Open the forum "{second}"', path=f"^/forum/f/{second}"),
            subgoal(f'Subscribe to "{second}"', db=(subscribed, second)),
        ],
        oracle=[
            click("link", first),
            click("button", "Subscribe"),
            click("link", "Forums"),
            click("link", second),
            click("button", "Subscribe"),
            stop(),
        ],
    )


TEMPLATES = (
    create_post,
    comment_on_post,
    author_of_extreme_post,
    vote_on_extreme_post,
    count_comments,
    edit_own_post,
    delete_own_post,
    update_settings,
    open_author_page,
    subscribe_to_two,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _forum(db, rng) -> str:
    return rng.choice([row["name"] for row in db.execute("SELECT name FROM forum_forums ORDER BY name")])


def some_post(db, rng):
    return rng.choice(db.execute("SELECT * FROM forum_posts WHERE author != ? ORDER BY id", (USER,)).fetchall())


def _first(db, forum: str, sort: str):
    """The first post of a forum in that order; `Unsuitable` if it leads the default order too."""
    posts = db.execute(f"{POSTS} WHERE forum = ? ORDER BY {SORTS[sort][1]}, p.id", (forum,)).fetchall()
    newest = db.execute(f"{POSTS} WHERE forum = ? ORDER BY day DESC LIMIT {PAGE}", (forum,)).fetchall()
    if posts[0]["id"] == newest[0]["id"]:
        raise Unsuitable(f"the first post of {forum} is the same in both orders")
    return posts[0]


def search(title: str) -> list:
    return [
        click("link", "Search"),
        type_into("Search for", title),
        click("button", "Search"),
        click("link", title),
    ]


def _sorted(db, forum: str, sort: str) -> list:
    return [
        click("link", forum),
        click("button", f"Sort: {SORTS['new'][0]}"),
        click("link", SORTS[sort][0]),
    ]
