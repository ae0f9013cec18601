"""A chat is a unit a message, with who wrote it and when."""

from datetime import datetime, timedelta, timezone

import pytest

from plume_memory.records import Context, Transition
from plume_memory.segmentation.forms.recognise import form_of
from plume_memory.segmentation.units import units_of

IOS = "[04.03.26, 09:15:22] Mirela Voss: I signed it\n[13.03.26, 09:16:02] Jonas: Great!\nWhich street?"
ANDROID = "04/03/2026, 09:15 - Mirela Voss: I signed it\n13/03/2026, 09:16 - Jonas: Great!\nWhich street?"
AMERICAN = "3/4/26, 9:15 AM - Mirela Voss: I signed it\n3/13/26, 9:16 AM - Jonas: Great!\nWhich street?"


@pytest.mark.parametrize("text", [IOS, ANDROID, AMERICAN, IOS.replace("[", "\u200e["), IOS.replace("\n", "\r\n")])
def test_exports_of_whatsapp(text, units):
    assert form_of(text) == "chat"
    found = units(text)
    assert [(unit.speaker, unit.observed_at and unit.observed_at.date().isoformat()) for unit in found] == [
        ("Mirela Voss", "2026-03-04"),
        ("Jonas", "2026-03-13"),
    ]
    assert [unit.text.split("\n")[0] for unit in found] == ["Mirela Voss (2026-03-04):", "Jonas (2026-03-13):"]
    assert found[1].text[found[1].own :].split() == ["Great!", "Which", "street?"]
    assert "".join(text[unit.start : unit.end] for unit in found) == text


def test_what_a_chat_says_without_a_name_is_nobodys(units):
    text = (
        "04/03/2026, 09:15 - Messages are encrypted.\n04/03/2026, 09:16 - Ann: hi there\n04/03/2026, 09:17 - Bo: 10:30?"
    )
    found = units(text)
    assert [unit.speaker for unit in found] == [None, "Ann", "Bo"]


def test_a_message_that_begins_with_a_time_is_no_new_message(units):
    found = units("[04.03.26, 09:15:22] Ann: When?\n10:30 is fine\n[04.03.26, 09:16:22] Bo: Good.")
    assert [unit.text[unit.own :].strip() for unit in found] == ["When?\n10:30 is fine", "Good."]


def test_irc_with_its_days(texts):
    text = (
        "--- Log opened Tue Jun 02 08:58:11 2026\n08:58 <kes> it broke\n"
        "--- Day changed Wed Jun 03 2026\n10:20 <@wren> tag out"
    )
    assert form_of(text) == "chat"
    assert texts(text) == ["kes (2026-06-02):\nit broke", "wren (2026-06-03):\ntag out"]


@pytest.mark.parametrize(
    "text",
    [
        "Anna Keller  9:15 AM\nI moved to Thun\nBen  9:17 AM\nI did not",
        "Anna Keller — 04.03.2026 09:15\nI moved to Thun\nBen — 04.03.2026 09:17\nI did not",
        "[04-Mar-26 09:15 AM] Anna Keller\nI moved to Thun\n[04-Mar-26 09:17 AM] Ben\nI did not",
        "[3/4/26 9:15 AM] Anna Keller: I moved to Thun\n[3/4/26 9:17 AM] Ben: I did not",
        "[9:15 AM] Anna Keller\nI moved to Thun\n[9:17 AM] Ben\nI did not",
        "Anna Keller, [04.03.2026 09:15]\nI moved to Thun\n\nBen, [04.03.2026 09:17]\nI did not",
        "Anna Keller, [04.03.2026 09:15]:\nI moved to Thun\n\nBen, [04.03.2026 09:17]:\nI did not",
    ],
)
def test_what_is_copied_from_slack_discord_teams_and_telegram(text, units):
    assert form_of(text) == "chat"
    found = units(text)
    assert [unit.speaker for unit in found] == ["Anna Keller", "Ben"]
    assert [unit.text[unit.own :].strip() for unit in found] == ["I moved to Thun", "I did not"]
    assert all(unit.observed_at in (None, found[0].observed_at) or unit.observed_at.minute == 17 for unit in found)


def test_a_name_with_the_surname_first(units):
    found = units("[9:15 AM] Keller, Anna\nI moved to Thun\n[9:17 AM] Ott, Ben\nI did not")
    assert [unit.speaker for unit in found] == ["Keller, Anna", "Ott, Ben"]


@pytest.mark.parametrize(
    "text",
    [
        "[09:15] checking the valve\nopened it by hand\n[09:20] still leaking\nclosed it",
        "[09:15] Started\n[09:20] Finished\n[09:30] Started",
    ],
)
def test_times_of_a_protocol_are_no_chat(text):
    assert form_of(text) != "chat"


def test_names_and_what_they_say(texts):
    text = "Anna: I live in Bern.\nBob: I live in Rome.\nAnna: And I sail.\nBob: I do not."
    assert form_of(text) == "chat"
    assert texts(text)[:2] == ["Anna:\nI live in Bern.", "Bob:\nI live in Rome."]


@pytest.mark.parametrize(
    "text",
    [
        "Song: What is love?\nArtist: Haddaway\nYear: 1993",
        "Book: Who Moved My Cheese?\nAuthor: Spencer Johnson",
        "Front: What is the capital of France?\nBack: Paris",
        "Monday: who picks up Mia?\nTuesday: Bo",
        "Windows: are they closed?\nStove: is it off?\nLights: are they off?",
        "Issue: Why does the build fail?\nFix: pin numpy",
        "Allergies: none known?\nBlood type: A+",
        "Todo: call Bo?\nDone: call Ann",
    ],
)
def test_a_question_in_a_record_makes_no_chat(text):
    assert form_of(text) != "chat"


def test_a_day_above_what_is_said(texts):
    text = "1:56 pm on 8 May, 2023\n\nAnna: I went there yesterday.\nBob: I did not.\nAnna: You should."
    assert form_of(text) == "chat"
    assert texts(text)[0] == "Anna (2023-05-08):\nI went there yesterday (2023-05-07)."


@pytest.mark.parametrize(
    "line",
    [
        "I have a cat: Mia.",
        "We meet at: the pier.",
        "My dog is called: Rex.",
        "The codes are: 4 and 5.",
        "It's mine: 5",
    ],
)
def test_a_label_that_is_a_clause_is_no_speaker(line, units):
    text = f"Liv: I live in Bern.\n{line}\nBo: I moved to Thun.\nLiv: When was that?\nBo: Yesterday."
    assert form_of(text) == "chat"
    assert [unit.speaker for unit in units(text)] == ["Liv", "Bo", "Liv", "Bo"]


@pytest.mark.parametrize("name", ["He Wei", "IT Support", "We Love Bern"])
def test_a_time_beside_a_name_tells_that_it_is_one(name, units):
    text = f"[04.03.26, 09:15:00] {name}: I live in Zurich.\n[04.03.26, 09:16:00] Liv: Since when?"
    assert [unit.speaker for unit in units(text)] == [name, "Liv"]


def test_a_record_of_a_family_is_no_chat():
    assert form_of("Me: 34 years old, from Bern.\nWife: Anna is 33 years old.\nDog: Rex is 5 years old.") != "chat"


@pytest.mark.parametrize("text", ["me: hi\nLiv: hello", "Me: where is it?\nLiv: I do not know.", "Liv: hi\nme: hello"])
def test_me_and_a_name_are_a_chat(text, units):
    assert form_of(text) == "chat"
    assert {unit.speaker for unit in units(text)} == {None, "Liv"}


@pytest.mark.parametrize("told", ["observed_at", "written_at"])
def test_yesterday_in_a_stamp_is_the_day_before_the_text(told):
    text = "Anna — Yesterday at 9:15 AM\nI got it yesterday\nBen — Today at 9:16 AM\nGood"
    day = datetime(2026, 3, 4, 12)
    observed = day if told == "observed_at" else None
    told_once = Transition(1, text, context=Context("chat", None, observed), written_at=day)
    found = units_of([told_once], budget_tokens=100, count_tokens=len, single_sentences=True)
    assert found[0].text.strip() == "Anna (2026-03-03):\n\nI got it yesterday (2026-03-02)"
    assert found[1].observed_at == observed


@pytest.mark.parametrize(
    "text",
    [
        "me: tea\nLiv: coffee",
        "user: admin\nHost: mail",
        "Name: Alice\nCity: Bern\nName: Bob\nCity: Rome",
        "City: Bern\nDog: Rex",
        "09:00 Breakfast: eggs\n10:00 Walk: the park\n12:00 Lunch: soup",
        "We meet at 19:30\nBring cake\nWe leave at 22:00\nBring shoes",
        "Note: the shop is closed today.",
        "Ingredients: flour, eggs and milk\nTime: about forty minutes in all\nServes: four people or so",
    ],
)
def test_records_and_plans_are_no_chats(text):
    assert form_of(text) != "chat"


def test_a_named_form_needs_no_proof(texts):
    assert texts("Ann: hello", "chat") == ["Ann:\nhello"]


def test_a_message_longer_than_the_budget_is_several_units_of_its_speaker(units):
    text = f"[04.03.26, 09:15:22] Ann: {'I like tea. ' * 20}\n[04.03.26, 09:16:22] Bo: Good."
    found = units(text, budget=12)
    assert len(found) > 4
    assert all(unit.text.startswith("Ann (2026-03-04):\n") for unit in found[:-1])
    assert text[found[0].start : found[-1].end] == text


def test_a_table_that_is_pasted_is_said_by_its_speaker(texts):
    pasted = "city,inhabitants,mayor\nThun,44000,Lanz\nBern,135000,Graf"
    found = texts(
        f"[04.03.26, 09:15:22] Ann: here it is\n[04.03.26, 09:16:22] Bo: {pasted}\n[04.03.26, 09:17:22] Ann: ok"
    )
    assert "Bo (2026-03-04):\nThe mayor of Thun is Lanz." in found


OPENAI = '[{"role": "user", "content": "I moved to Thun"}, {"role": "assistant", "content": "Nice!"}]'
TELEGRAM = (
    '{"name": "Us", "messages": [{"id": 1, "type": "service", "date": "2026-03-04T09:00:00", "actor": "Ann"}, '
    '{"id": 2, "date": "2026-03-04T09:15:00", "from": "Ann", '
    '"text": ["see ", {"type": "link", "text": "a.example"}]}, '
    '{"id": 3, "date": "2026-03-05T09:15:00", "from": "Bo", "reply_to_message_id": 2, "text": "I saw it yesterday"}]}'
)
SLACK = (
    '[{"type": "message", "user": "U1", "user_profile": {"real_name": "Ann Lee"}, "text": "lunch?", '
    '"ts": "1772612100.0"}, '
    '{"type": "message", "user": "U2", "text": "yes", "ts": "1772612200.5", "thread_ts": "1772612100.0"}]'
)
TEAMS = (
    '{"value": [{"id": "1", "createdDateTime": "2026-03-04T09:15:00Z", "from": {"user": {"displayName": "Ann"}}, '
    '"body": {"contentType": "html", "content": "<p>The room is <b>B12</b></p>"}}]}'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OPENAI, ["I moved to Thun", "Assistant:\nNice!"]),
        (
            TELEGRAM,
            [
                "Ann (2026-03-04):\nsee a.example",
                'In answer to Ann: "see a.example"\nBo (2026-03-05):\nI saw it yesterday (2026-03-04)',
            ],
        ),
        (SLACK, ["Ann Lee (2026-03-04):\nlunch?", 'In answer to Ann Lee: "lunch?"\nU2 (2026-03-04):\nyes']),
        (TEAMS, ["Ann (2026-03-04):\nThe room is  B12"]),
    ],
)
def test_exports_in_json(text, said, texts, units):
    assert form_of(text) == "chat"
    assert [one.replace("  ", " ") for one in texts(text)] == [one.replace("  ", " ") for one in said]
    assert all(text[unit.start] == "{" and text[unit.end - 1] == "}" for unit in units(text))


@pytest.mark.parametrize(
    "text",
    [
        "Q: Who owns billing?\nA: Aisha.\nQ: Where is the office?\nA: In Bern.",
        '[{"role": "user", "name": "Q", "content": "Who owns billing?"}, {"role": "user", "name": "A", "content": '
        '"Aisha."}, {"role": "user", "name": "Q", "content": "Good. Where is the office?"}, '
        '{"role": "user", "name": "A", "content": "In Bern."}]',
    ],
)
def test_a_message_stands_under_the_question_before_it(text, texts):
    said = texts(text)
    assert said[1] == 'In answer to Q: "Who owns billing?"\nA:\nAisha.'
    assert said[3] == 'In answer to Q: "Where is the office?"\nA:\nIn Bern.'


@pytest.mark.parametrize(
    "chat",
    [
        "Ann: I moved to Bern.\nBo: In May.\nAnn: Fine, in May then.",  # nothing was asked
        "Ann: Where is Bo?\nAnn: He is in Thun.\nBo: I am here.\nAnn: I see you.",  # nobody else answers
        "Ann: ?\nBo: I am here.\nAnn: I see you.",
        "[04.03.26, 09:15:22] Ann: Where is Bo?\n[04.06.26, 09:15:22] Bo: I am here.",  # months later
        "[04.03.26, 09:15:22] Ann: Where is Bo?\n[04.03.26, 09:16:22] Cy joined using a link\n"
        "[04.03.26, 09:17:22] Bo: I am here.",
        '{"value": [{"id": "3", "createdDateTime": "2026-03-04T10:02:00Z", "from": {"user": {"displayName": "Ann"}}, '
        '"body": {"content": "Where is the office?"}}, {"id": "2", "createdDateTime": "2026-03-04T10:01:00Z", '
        '"from": {"user": {"displayName": "Bo"}}, "body": {"content": "Aisha does."}}]}',  # newest first
        '[{"id": 2, "date": "2026-03-04T10:01:00", "from": "Ann", "text": "Where is Bo?"}, {"id": 3, "from": "Bo", '
        '"date": "2026-03-04T10:02:00", "reply_to_message_id": 1, "text": "Yes."}]',  # to what is not there
    ],
)
def test_other_messages_stand_under_nothing(chat, texts):
    assert not any("In answer" in one for one in texts(chat, "chat"))


@pytest.mark.parametrize(
    "notes",
    [
        "Decision: budget approved\nOpen: who pays?\nOwner: Ann\nOpen: when?\nDeadline: May",
        "Status: is it open?\nOwner: Ann\nStatus: closed?\nOwner: Bo",
        "Hotel: booked?\nTrain: 9:15\nHotel: paid\nKeys: at the desk",
    ],
)
def test_labels_with_questions_are_no_chat(notes):
    assert form_of(notes) != "chat"


def test_time_zones_are_kept(units):
    (one,) = units('[{"role": "user", "content": "hello", "timestamp": "2026-03-04T23:30:00+02:00"}]')
    assert one.observed_at == datetime(2026, 3, 4, 23, 30, tzinfo=timezone(timedelta(hours=2)))
    assert one.text == "2026-03-04:\nhello"
