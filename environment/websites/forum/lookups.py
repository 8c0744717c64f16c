"""Task templates of the forum in which what one page says is needed on the next."""

from __future__ import annotations

from environment.websites.authoring import (
    Draft,
    Unsuitable,
    answer_is,
    both,
    click,
    ends_at,
    page_shows,
    stop,
    subgoal,
    type_into,
)
from environment.websites.forum.site import POSTS, USER
from environment.websites.forum.tasks import HOME, search, some_post


def sum_of_comments(db, rng) -> Draft:
    first, second = rng.sample(_commented(db), 2)
    total = str(first["comments"] + second["comments"])
    return Draft(
        intents=[
            f'How many comments do the posts "{first["title"]}" and "{second["title"]}" have together?',
            f'Add up the comments on "{first["title"]}" and on "{second["title"]}": how many are there?',
            f'What is the number of comments on "{first["title"]}" plus that on "{second["title"]}"?',
        ],
        start=HOME,
        eval=answer_is(total),
        subgoals=_one_after_the_other(first, second),
        oracle=[*search(first["title"]), *search(second["title"]), stop(total)],
    )


def credit_author(db, rng) -> Draft:
    source, target = rng.sample(_commented(db), 2)
    posted = ("SELECT 1 FROM forum_comments WHERE post_id = ? AND author = ? AND body = ?", target["id"], USER, source["author"])
    return Draft(
        intents=[
            f'Find out who wrote the post "{source["title"]}" and comment that name on the post "{target["title"]}"',
            f'Comment the name of the author of "{source["title"]}" on the post "{target["title"]}"',
            f'On the post "{target["title"]}", leave a comment that is the name of whoever wrote "{source["title"]}"',
        ],
        start=HOME,
        eval=page_shows((f"{HOME}/post/{target['id']}", "main", [f"{USER}: {source['author']}"])),
        subgoals=[*_one_after_the_other(source, target)[1:], subgoal("Add the comment", db=posted)],
        oracle=[
            *search(source["title"]),
            *search(target["title"]),
            type_into("Your comment", source["author"]),
            click("button", "Add comment"),
            stop(),
        ],
    )


def points_of_most_commented(db, rng) -> Draft:
    post, best = _of_one_author(db, rng)
    return Draft(
        intents=[
            f'Of all posts by the author of "{post["title"]}", how many points does the one with the most comments have?',
            f'Look at what the author of "{post["title"]}" posted: how many points has the post with the most comments?',
            f'Who wrote "{post["title"]}"? Tell me the points of that person\'s post with the most comments',
        ],
        start=HOME,
        eval=answer_is(str(best["score"])),
        subgoals=[
            subgoal("Open the search page", path="^/forum/search"),
            *_to_author(post),
        ],
        oracle=[*search(post["title"]), click("link", post["author"]), stop(str(best["score"]))],
    )


def open_most_commented_of_author(db, rng) -> Draft:
    post, best = _of_one_author(db, rng)
    return Draft(
        intents=[
            f'Of all posts by the author of "{post["title"]}", open the one with the most comments',
            f'Show me the post with the most comments among those by the author of "{post["title"]}"',
            f'Who wrote "{post["title"]}"? Go to the post of that person that has the most comments',
        ],
        start=HOME,
        eval=ends_at(f"{HOME}/post/{best['id']}"),
        subgoals=[*_to_author(post), subgoal("Open the post with the most comments", path=f"^/forum/post/{best['id']}$")],
        oracle=[*search(post["title"]), click("link", post["author"]), click("link", best["title"]), stop()],
    )


def vote_and_tell_points(db, rng) -> Draft:
    post, (button, value) = some_post(db, rng), rng.choice([("Upvote", 1), ("Downvote", -1)])
    points = str(post["score"] + value)
    return Draft(
        intents=[
            f'{button} the post "{post["title"]}". How many points does it have then?',
            f'Give a {button.lower()} to "{post["title"]}" and tell me its points after that',
            f'Tell me how many points the post "{post["title"]}" has after you {button.lower()} it',
        ],
        start=HOME,
        eval=both(
            answer_is(points),
            page_shows((f"{HOME}/post/{post['id']}", "main", [f"{points} points, you voted {button[:-4].lower()}"])),
        ),
        subgoals=[
            subgoal("Open the search page", path="^/forum/search"),
            *_opened(post),
            subgoal(f"{button} it", db=("SELECT 1 FROM forum_posts WHERE id = ? AND vote = ?", post["id"], value)),
        ],
        oracle=[*search(post["title"]), click("button", button), stop(points)],
    )


TEMPLATES = (
    sum_of_comments,
    credit_author,
    points_of_most_commented,
    open_most_commented_of_author,
    vote_and_tell_points,
)


# --- pieces that several templates share ---------------------------------------------------------------------------


def _commented(db) -> list:
    return db.execute(f"SELECT * FROM ({POSTS}) WHERE comments > 0 AND author != ? ORDER BY id", (USER,)).fetchall()


def _opened(post) -> list:
    return [
        subgoal(f'Search for "{post["title"]}"', path=r"^/forum/search\?q=.", page=[f'link "{post["title"]}"']),
        subgoal(f'Open the post "{post["title"]}"', path=f"^/forum/post/{post['id']}$"),
    ]


def _one_after_the_other(first, second) -> list:
    return [*_opened(first), *_opened(second)]


def _of_one_author(db, rng) -> tuple:
    """A post, and another by the same author that has more comments than each of the author's posts."""
    posts = db.execute(f"{POSTS} WHERE author != ? ORDER BY comments DESC, p.id", (USER,)).fetchall()
    cases = []
    for author in sorted({post["author"] for post in posts}):
        best, *others = [post for post in posts if post["author"] == author]
        if others and others[0]["comments"] < best["comments"] and len(others) < 8:  # a user's page lists eight posts
            cases += [(post, best) for post in others]
    if not cases:
        raise Unsuitable("nobody wrote two posts")
    return rng.choice(cases)


def _to_author(post) -> list:
    return [*_opened(post), subgoal("Open its author's page", path=f"^/forum/user/{post['author']}$")]
