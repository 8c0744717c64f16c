"""Code hosting: projects, issues, merge requests, members (WebArena's GitLab)."""
