"""PocketArena: five small web applications that stand in for WebArena's, served on loopback.

Each episode has a `World` of its own: one SQLite database with the tables of all sites, filled from a seed, and one
server on a port of its own.  So many episodes run side by side and none sees another's writes.  A world is built once
for a seed and then restored with SQLite's backup, in milliseconds.

A site is a folder with three modules:

* ``site.py``     ``SCHEMA`` (SQL), ``populate(db, rng)``, and a Flask ``blueprint`` under the site's own path;
* ``tasks.py``    the task templates, each a function of a filled database (see ``authoring``);
* ``lookups.py``  more of them, most in need of what an earlier page said.

``multi_site.py`` has the templates that need two sites.
"""

from __future__ import annotations

import functools
import importlib
import logging
import random
import sqlite3
import threading

from flask import Flask, current_app, render_template
from werkzeug.serving import WSGIRequestHandler, make_server

SITES = ("forum", "gitlab", "shop_admin", "shop", "map")


def site_modules() -> list:
    return [importlib.import_module(f"{__name__}.{site}.site") for site in SITES]


@functools.lru_cache(maxsize=512)
def seeded_database(seed: int) -> sqlite3.Connection:
    """The filled database of a seed, to be read or copied, never written.  The same seed gives the same rows."""
    db = _connect()
    for module in site_modules():
        db.executescript(module.SCHEMA)
        module.populate(db, random.Random(f"{seed}/{module.__name__}"))
    db.commit()
    return db


def _connect() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.row_factory = sqlite3.Row
    return db


class _QuietHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep the connection open: a page is several requests
    timeout = 30

    def log(self, *args):
        pass


class World:
    """A running set of sites with its own database.

    >>> with World() as world:
    ...     world.reset(seed=7)
    ...     world.url("__FORUM__").endswith("/forum")
    True
    """

    def __init__(self):
        self.lock = threading.RLock()  # SQLite allows one statement at a time on a connection
        self.db = _connect()
        self._server = make_server("127.0.0.1", 0, _application(self), threaded=True, request_handler=_QuietHandler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def reset(self, seed: int) -> None:
        """Put the world back to what `seed` makes it."""
        with self.lock:
            self.db.rollback()  # what a failed request left undone
            seeded_database(seed).backup(self.db)

    def url(self, url: str) -> str:
        """`url` with WebArena's placeholders (``__FORUM__``, ``__GITLAB__``, …) replaced by addresses."""
        for site in SITES:
            url = url.replace(f"__{site.upper()}__", f"{self.origin}/{site}")
        return url

    def query(self, sql: str, *arguments) -> list[sqlite3.Row]:
        """Rows of the world's database, for checks."""
        with self.lock:
            return self.db.execute(sql, arguments).fetchall()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _application(world: World) -> Flask:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask(__name__)
    app.world = world
    app.secret_key = "pocket-arena"  # signs the notices between two pages of a throw-away world; nothing secret
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = 3600  # style and script are asked for once an episode, not once a page
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    for module in site_modules():
        app.register_blueprint(module.blueprint)

    @app.errorhandler(404)
    def not_found(_):
        return render_template("not_found.html"), 404

    return app


def query(sql: str, *arguments) -> list[sqlite3.Row]:
    """Rows, for a view of a site."""
    return current_app.world.query(sql, *arguments)


def query_one(sql: str, *arguments) -> sqlite3.Row | None:
    rows = query(sql, *arguments)
    return rows[0] if rows else None


def execute(sql: str, *arguments) -> int:
    """Change the world; returns the new row's id."""
    world = current_app.world
    with world.lock:
        cursor = world.db.execute(sql, arguments)
        world.db.commit()
        return cursor.lastrowid


def paginate(rows: list, page: int, size: int) -> tuple[list, int]:
    """The rows of one page, and how many pages there are."""
    pages = max(1, -(-len(rows) // size))
    page = min(max(page, 1), pages)
    return rows[(page - 1) * size : page * size], pages

