"""Write PocketArena's task files: ``python -m environment.websites.build_tasks``.

Evaluation and pool use worlds of disjoint seeds, so no answer can be remembered, and intents differ wherever a template has
something to name.
"""

from __future__ import annotations

import dataclasses
import json

from environment.tasks import SPLITS, TASK_FOLDER, first_suitable, templates
from environment.websites import SITES
from trajectory import Task

PER_SITE = {  # the pool has 1,573 tasks, as the paper's (section 5.4)
    "evaluation": dict.fromkeys(SITES, 12),
    "pool": {"forum": 315, "gitlab": 315, "shop_admin": 315, "shop": 314, "map": 314},
}
FIRST_SEED = {"evaluation": 1_000_000, "pool": 2_000_000}
TRIES = 20  # worlds looked at for a new intent; some templates, such as a count, have one for all worlds


def build() -> dict[str, list[Task]]:
    """The tasks of both splits, templates taken in turn within a site."""
    seen: set[str] = set()
    return {split: [task for site in SITES for task in _site_tasks(site, split, seen)] for split in SPLITS}


def _site_tasks(site: str, split: str, seen: set[str]) -> list[Task]:
    ids = [template for template, (its_site, _) in templates().items() if its_site == site]
    seed, tasks = FIRST_SEED[split] + 100_000 * SITES.index(site), []
    for number in range(PER_SITE[split][site]):
        for _ in range(TRIES):
            task = first_suitable(ids[number % len(ids)], range(seed, seed + 200), task_id=f"{site}-{split[:4]}-{number:03d}")
            seed = task.world + 1
            if task.intent not in seen:
                break
        seen.add(task.intent)
        tasks.append(task)
    return tasks


def main() -> None:
    TASK_FOLDER.mkdir(exist_ok=True)
    for split, tasks in build().items():
        entries = [json.dumps(dataclasses.asdict(task), ensure_ascii=False) for task in tasks]
        (TASK_FOLDER / f"{split}.json").write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
        print(f"{split}: {len(tasks)} tasks")


if __name__ == "__main__":
    main()
