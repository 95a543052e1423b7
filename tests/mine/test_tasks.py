"""Sessions about the same task are one piece of evidence."""

from __future__ import annotations

from runlore.mine.tasks import join_tasks, task_keys


def test_a_family_an_issue_or_a_request_makes_sessions_one_task() -> None:
    tasks = join_tasks(
        {
            "a": task_keys("a", "acme/shop", "#12", "Fix the cart"),
            "b": task_keys("b", "acme/shop", "#12", "again please"),
            "c": task_keys("b", "acme/shop", None, "look at the tests"),
            "d": task_keys("d", "acme/shop", None, "fix the cart!"),
            "e": task_keys("e", "acme/site", "#12", "Fix the cart"),
            "f": task_keys("f", None, None, None),
            "g": task_keys("g", None, None, None),
        }
    )
    assert tasks == {"a": "a", "b": "a", "c": "a", "d": "a", "e": "e", "f": "f", "g": "g"}


def test_an_issue_with_its_repository_is_the_same_from_anywhere() -> None:
    tasks = join_tasks(
        {
            "a": task_keys("a", None, "acme/shop#12", None),
            "b": task_keys("b", "acme/shop", "acme/shop#12", None),
        }
    )
    assert len(set(tasks.values())) == 1
