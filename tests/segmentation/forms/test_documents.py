"""Markdown, pages, mails, transcripts, notes and prose."""

import pytest

from plume_memory.segmentation.forms.recognise import form_of
from plume_memory.segmentation.units import UNNAMED

MARKDOWN = """# Harbour

Olle was here. Petra led.

## Tasks

| Task | Owner | Due |
|:--|--|--:|
| Paint **pier 3** | Olle | 20 March |
| Order \\| buoys |  | 2 April |

```sh
# no title
make
```

- Crane: 9 April
  - at noon

> It will be
> finished soon.

## Next

In the pilot house.
"""


def test_markdown_stands_under_its_headings(texts):
    assert form_of(MARKDOWN) == "markdown"
    assert texts(MARKDOWN) == [
        "# Harbour\n\nOlle was here.",
        "# Harbour\nPetra led.",
        "# Harbour\n## Tasks\nTable of 2 rows: task, owner, due.",
        "# Harbour\n## Tasks\nThe owner of Paint pier 3 is Olle.",
        "# Harbour\n## Tasks\nPaint pier 3, due: 20 March",
        "# Harbour\n## Tasks\nOrder | buoys, due: 2 April",
        "# Harbour\n## Tasks\n```sh\n# no title\nmake\n```",
        "# Harbour\n## Tasks\n\n- Crane: 9 April",
        "# Harbour\n## Tasks\n- Crane: 9 April\n  - at noon",
        "# Harbour\n## Tasks\nQuoted\nIt will be finished soon.",
        "# Harbour\n## Next\n\nIn the pilot house.",
    ]


def test_a_cell_of_markdown_is_pointed_at(units):
    found = {unit.text.split("\n")[-1]: MARKDOWN[unit.start : unit.end] for unit in units(MARKDOWN)}
    assert found["The owner of Paint pier 3 is Olle."] == "Olle"


@pytest.mark.parametrize(
    "table", ["a | b\n{0} | {0}\n1 | 2", "| a | b |\n|{0}|{0}|\n| 1 | 2 |", "a | b\n{0}|{0}\n1 | 2"]
)
@pytest.mark.parametrize("rule", ["---", ":-:", "--:"])
def test_a_table_without_borders_is_cut_as_one_with_them(table, rule, texts):
    text = table.format(rule)
    assert form_of(text) == "markdown"
    assert texts(text) == ["Table of 1 row: a, b.", "The b of 1 is 2."]


@pytest.mark.parametrize("text", ["# Notes\n\nI live in Bern.", "- a\n- b", "a | b", "**bold** words", "#tag\n#other"])
def test_what_is_not_clearly_markdown(text):
    assert form_of(text) is None


PAGE = """<!DOCTYPE html><html><head><title>Museum</title><script>var a = "shut";</script></head><body>
<!-- not this --><h1>Museum</h1><p>It opened in <b>1987</b> &amp; has a ramp. Take <i>tram</i> 6.</p>
<h2>Hours</h2><table><tr><th>Day</th><th>From</th></tr><tr><td>Tuesday</td><td>10:00</td></tr></table>
<h2>Facts</h2>
<table><tr><th>Colour</th><td>green</td></tr><tr><th>Weight</th><td>2 kg</td></tr></table></body></html>"""


def test_a_page_is_what_is_seen_of_it(texts, units):
    assert form_of(PAGE) == "html"
    assert texts(PAGE) == [
        "Museum\nIt opened in 1987 & has a ramp.",
        "Museum\nTake tram 6.",
        "Museum\nHours\nTable of 1 row: day, from.",
        "Museum\nHours\nTuesday, from: 10:00",
        "Museum\nFacts\nColour: green",
        "Museum\nFacts\nWeight: 2 kg",
    ]
    spans = [PAGE[unit.start : unit.end] for unit in units(PAGE)]
    assert spans[:2] == ["It opened in <b>1987</b> &amp; has a ramp.", "Take <i>tram</i> 6."]
    assert spans[3] == "10:00"


@pytest.mark.parametrize("text", ["a < b and c > d", "<3 you", "<name> is here", "Use <br> in HTML.</p>"])
def test_what_is_no_page(text):
    assert form_of(text) is None


MAIL = """From: Signe Dahl <signe@dahl.example>
To: Marek Zeman <marek@zeman.example>
Subject: Re: Looms
Date: Thu, 12 Mar 2026 16:20:00 +0100

They come tomorrow, not on the 17th. Keep gate 5 free.

On Tue, 10 Mar 2026 at 11:05, Marek Zeman <marek@zeman.example>
wrote:
> When do they come? We open at 6:30.
>
> Marek
>> They come on 17 March.
"""


def test_the_newest_part_of_a_mail_is_last_and_each_part_is_its_writers(units):
    assert form_of(MAIL) == "email"
    found = units(MAIL)
    said = [(unit.speaker, unit.text.split("\n")[-2 if unit.text.endswith("\n") else -1].strip()) for unit in found]
    assert said[0] == (UNNAMED, "They come on 17 March.")
    assert ("Marek Zeman", "When do they come? We open at 6:30.") in said
    assert said[-3].__contains__("Signe Dahl")
    texts = [unit.text for unit in found]
    newest = next(text for text in texts if "tomorrow" in text)
    assert newest.startswith("Subject: Re: Looms\nSigne Dahl (2026-03-12):\n")
    assert "tomorrow (2026-03-13)" in newest
    assert texts.index(newest) > next(at for at, text in enumerate(texts) if "6:30" in text)
    assert "Mail from Signe Dahl to Marek Zeman about Re: Looms." in texts[-1]
    quoted = next(unit for unit in found if "6:30" in unit.text)
    assert MAIL[quoted.start : quoted.end] == "> When do they come? We open at 6:30."
    assert str(quoted.observed_at) == "2026-03-10 11:05:00"


HEAD = (
    "From: Ann <a@x.example>\nTo: Ben <b@x.example>\nDate: Wed, 4 Mar 2026 09:15:00 +0100\nSubject: Party\n"
    "MIME-Version: 1.0\n"
)
WROTE = "On Tue, 3 Mar 2026 at 08:00, Ben <b@x.example> wrote:"
HTML_WROTE = WROTE.replace("<", "&lt;").replace(">", "&gt;")
PARTS = "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\n{}\n--b--\n"


@pytest.mark.parametrize(
    ("body", "writer"),
    [
        ("Content-Type: text/html\n\n<p>It is tomorrow.</p><blockquote><p>It was yesterday.</p></blockquote>", None),
        (
            f"Content-Type: text/html\n\n<div>It is tomorrow.</div><div class='gmail_quote'><div>{HTML_WROTE}<br></div>"
            "<blockquote>It was yesterday.</blockquote></div>",
            "Ben",
        ),
        (
            "Content-Type: text/html\n\n<p>It is tomorrow.</p><blockquote><table><tr><td>It was yesterday.</td></tr>"
            "</table></blockquote>",
            None,
        ),
        ("Content-Type: text/plain\n\nIt is tomorrow.\n\n> It was yesterday.\n", None),
        ("Content-Type: text/plain\n\n> It was yesterday.\n\nIt is tomorrow.\n", None),
        (f"Content-Type: text/plain\n\nIt is tomorrow.\n\n{WROTE}\n> It was yesterday.\n", "Ben"),
        (PARTS.format("It is tomorrow.\n\n> It was yesterday."), None),
    ],
)
@pytest.mark.parametrize("told_by", [None, "Ann"])
def test_what_a_mail_quotes_is_older_and_not_its_writers(body, writer, told_by, units):
    found = units(HEAD + body, speaker=told_by)
    at, quoted = next((at, unit) for at, unit in enumerate(found) if "was yesterday" in unit.text)
    newest_at, newest = next((at, unit) for at, unit in enumerate(found) if "is tomorrow" in unit.text)
    assert at < newest_at
    assert (quoted.speaker, newest.speaker) == (writer or UNNAMED, "Ann")
    assert "tomorrow (2026-03-05)" in newest.text
    assert ("yesterday (2026-03-02)" in quoted.text) == (writer is not None)
    assert "2026-03-03)." not in quoted.text


def test_a_quote_in_a_quote_of_a_page_is_older_still(units):
    inner = f"{HTML_WROTE.replace('Tue, 3', 'Mon, 2').replace('Ben', 'Ann')}<blockquote>On 1 May?</blockquote>"
    page = f"<p>No.</p><div>{HTML_WROTE}</div><blockquote><p>Yes.</p>{inner}</blockquote>"
    found = [(unit.text.split("\n")[-1], unit.speaker) for unit in units(HEAD + "Content-Type: text/html\n\n" + page)]
    said = [one for one in found if one[0] in ("No.", "Yes.", "On 1 May?")]
    assert said == [("On 1 May?", "Ann"), ("Yes.", "Ben"), ("No.", "Ann")]


def test_a_mail_without_a_blank_line_has_a_body(texts):
    text = "From: facilities\nTo: all\nSubject: Lift B\nLift B is closed on Monday. Take the stairs."
    assert texts(text)[0] == "Subject: Lift B\nfacilities:\nLift B is closed on Monday."


def test_a_forwarded_mail_is_its_writers(units):
    text = (
        "From: Henrike Sol <h@sol.example>\nTo: Team <t@sol.example>\nSubject: FW: Roof\n"
        "Date: Mon, 18 May 2026 08:12:00 +0200\n\nI said yes.\n\n-----Original Message-----\n"
        "From: Dach Ortner <o@ortner.example>\nSent: 13 May 2026 15:44\nTo: Henrike Sol\nSubject: Roof\n\n"
        "It costs 28,400."
    )
    found = {unit.text[unit.own :].strip(): (unit.speaker, str(unit.observed_at)[:16]) for unit in units(text)}
    assert found["It costs 28,400."] == ("Dach Ortner", "2026-05-13 15:44")
    assert found["I said yes."] == ("Henrike Sol", "2026-05-18 08:12")


def test_a_mail_in_base64_is_read(texts):
    text = (
        "From: Nordbank <s@nordbank.example>\nTo: Kaisa <k@lund.example>\nSubject: Card\n"
        "Date: Fri, 3 Jul 2026 07:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: base64\n\nWW91ciBjYXJkIGVuZHMgaW4gOTAyMSDigqwuIEl0IGNvbWVzIHRvbW9ycm93Lg==\n"
    )
    assert [one.split("\n")[-1] for one in texts(text)] == [
        "Mail from Nordbank to Kaisa about Card.",
        "Your card ends in 9021 €.",
        "It comes tomorrow (2026-07-04).",
    ]


@pytest.mark.parametrize("text", ["From: Bern\nTo: Thun", "Subject: tea", "From here to there: a walk\n\nIt was long."])
def test_what_is_no_mail(text):
    assert form_of(text) != "email" or text.startswith("From: Bern")


def test_transcripts(texts, units):
    text = "[00:00:03] Vera: Good morning.\n[00:00:11] Kofi: It reads 3,000 rows.\nAnd more.\n"
    assert form_of(text) == "transcript"
    assert texts(text) == ["At 00:00:03\nVera:\nGood morning.", "At 00:00:11\nKofi:\nIt reads 3,000 rows. And more."]
    assert "".join(text[unit.start : unit.end] for unit in units(text)) == text


def test_a_transcript_with_names_above_what_is_said(texts, units):
    text = "Speaker 1 (00:03):\nWhich day is the launch?\n\nVera Holm (00:09):\nMay 6.\nWe moved it.\n"
    assert form_of(text) == "transcript"
    assert texts(text) == [
        "At 00:03\nSpeaker 1:\nWhich day is the launch?",
        'At 00:09\nIn answer to Speaker 1: "Which day is the launch?"\nVera Holm:\nMay 6. We moved it.',
    ]
    assert "".join(text[unit.start : unit.end] for unit in units(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "Vera (9:15):\nhi\nBo (9:17):\nhello",
        "Intro (0:42)\nOne (1:20)\nTwo (3:05)",
        "Intro (0:42):\nOne (1:20):\nTwo (3:05):",
        "Warm-up (0:30)\nSquats (1:00)\nPlank (1:30)\nKeep your back straight.",
        "Pasta (0:12)\nboil\nRice (0:20)\nsimmer",
    ],
)
def test_what_is_no_transcript(text):
    assert form_of(text) != "transcript"


def test_a_line_that_looks_like_another_transcripts_begins_nothing(texts):
    text = "[00:00:03] Vera: Let us hear\nthe intro (0:30):\n[00:00:09] Bo: Fine."
    assert texts(text) == [
        "At 00:00:03\nVera:\nLet us hear the intro (0:30):",
        "At 00:00:09\nBo:\nFine.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT\n\n00:00:04.000 --> 00:00:09.500\n<v Sami>I keep\n14 hives.</v>\n",
        "1\n00:00:04,000 --> 00:00:09,500\nSami: I keep\n14 hives.\n",
    ],
)
def test_subtitles(text, texts):
    assert form_of(text) == "transcript"
    assert texts(text) == ["At 00:00:04\nSami:\nI keep 14 hives."]


NOTES = "I like tea\nI live in Bern\nmy dog is Rex"


def test_a_line_is_a_note_also_if_the_next_begins_small(texts):
    assert texts(NOTES) == NOTES.split("\n")
    assert texts("ferry leaves at seven\ncabin 318 is ours\n\nparking costs ninety a day\nhotel is by the pier") == [
        "ferry leaves at seven",
        "cabin 318 is ours",
        "parking costs ninety a day",
        "hotel is by the pier",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The return is not booked yet because the\ncompany has not published the winter\ntimetable; call Ragna",
        "Yesterday I met my friend\nbob in Paris and we ate.",
        "I met my old friend\nand we ate well",
        "the expedition left the port on the third of May with\ntwo ships and ninety men, led by Captain Elias\nthorne",
        "we went to the\nold harbour there",
    ],
)
def test_a_wrapped_paragraph_goes_on(text, texts):
    assert texts(text) == [text]


def test_notes_and_prose_can_be_named(texts):
    assert texts("tea\nmilk\n  and sugar", "notes") == ["tea", "milk\n  and sugar"]
    assert texts("- I like tea.\n- I like milk", "prose") == ["- I like tea.", "- I like milk"]
