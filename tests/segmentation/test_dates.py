"""A day that is named from where it stands has its date beside it, and keeps its words."""

from datetime import datetime

import pytest

from plume_memory.segmentation.dates import with_dates

WEDNESDAY = datetime(2026, 3, 4, 9, 15)


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("yesterday", "2026-03-03"),
        ("today", "2026-03-04"),
        ("tomorrow", "2026-03-05"),
        ("the day after tomorrow", "2026-03-06"),
        ("last night", "2026-03-03"),
        ("next Friday", "2026-03-06"),
        ("last Friday", "2026-02-27"),
        ("in two weeks", "2026-03-18"),
        ("three days ago", "2026-03-01"),
        ("a week ago", "2026-02-25"),
        ("next week", "week of 2026-03-09"),
        ("last month", "2026-02"),
        ("next year", "2027"),
        ("on Friday", "2026-03-06"),
    ],
)
def test_days(said, date):
    assert with_dates(f"We meet {said}, all of us.", WEDNESDAY) == f"We meet {said} ({date}), all of us."


def test_a_weekday_of_what_was_is_the_one_before():
    assert with_dates("She moved in on Monday.", WEDNESDAY) == "She moved in on Monday (2026-03-02)."


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("On Monday we met Rudi.", "2026-03-02"),
        ("On Monday, we met Rudi.", "2026-03-02"),
        ("on Wednesday we met", "2026-02-25"),
        ("The talk on Monday was long.", "2026-03-02"),
        ("I have met her on Monday.", "2026-03-02"),
        ("The shop was shut when we came on Monday.", "2026-03-02"),
        ("I met Anna and the kids on Monday.", "2026-03-02"),
        ("I was told the exam is on Friday.", "2026-03-06"),
        ("I was told that the roofers come on Friday.", "2026-03-06"),
        ("The exam was moved: it is on Friday.", "2026-03-06"),
        ("I met Rudi and we leave on Friday.", "2026-03-06"),
        ("The exam is planned on Friday.", "2026-03-06"),
        ("It will have been repaired on Friday.", "2026-03-06"),
        ("On Friday she'll tell what she saw.", "2026-03-06"),
        ("I need it on Friday.", "2026-03-06"),
        ("We met Bo at 10:30 on Monday.", "2026-03-02"),
        ("She told me to come on Friday.", "2026-03-06"),
        ("Bo said he leaves on Friday.", "2026-03-06"),
        ("Dinner on Friday with the people we met in Rome.", "2026-03-06"),
        ("Meet me on Friday at the cafe that opened in May.", "2026-03-06"),
        ("on Friday", "2026-03-06"),
    ],
)
def test_the_verb_nearest_to_a_weekday_decides_whether_it_was(said, date):
    dated = with_dates(said, WEDNESDAY)
    assert dated.count("(") == 1
    assert f"day ({date})" in dated


@pytest.mark.parametrize(
    "text",
    [
        "I go there on Fridays.",
        "Todays menu",
        "in the year",
        "We met yesterday (2026-03-03).",
        "one day",
        "",
        "It was a week ago on Tuesday.",
        "We met on Tuesday two weeks ago.",
        "a week from tomorrow",
        "two weeks after next Friday",
        "the Monday after next week",
        "a week on Friday",
        "on Monday week",
    ],
)
def test_what_names_no_day_stays_as_it_is(text):
    assert with_dates(text, WEDNESDAY) is text
