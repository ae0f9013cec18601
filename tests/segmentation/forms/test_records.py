"""Tables and documents are said cell by cell and field by field, and each unit points at its place."""

import re

import pytest

from plume_memory.segmentation.forms.recognise import form_of

PARTS = (
    'part_no,name,supplier\nK-2210,Sealing ring 24 mm,Blomqvist AB\nV-3301,"Valve ""V"", large","Ostrow, Sons & Co"\n'
)


def test_a_cell_is_a_sentence_and_the_unit_points_at_it(units):
    found = {unit.text: PARTS[unit.start : unit.end] for unit in units(PARTS)}
    assert form_of(PARTS) == "table"
    assert found == {
        "Table of 2 rows: part no, name, supplier.": "part_no,name,supplier",
        "The part no of Sealing ring 24 mm is K-2210.": "K-2210",
        "The supplier of Sealing ring 24 mm (K-2210) is Blomqvist AB.": "Blomqvist AB",
        'The part no of Valve "V", large is V-3301.': "V-3301",
        'The supplier of Valve "V", large (V-3301) is Ostrow, Sons & Co.': '"Ostrow, Sons & Co"',
    }


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters(delimiter, end, texts):
    rows = [["city", "mayor", "area"], ["Thun", "Lanz", "21"], ["Bern", "Graf", "51"]]
    text = end.join(delimiter.join(row) for row in rows)
    assert form_of(text) == "table"
    assert texts(text)[1:] == [
        "The mayor of Thun is Lanz.",
        "The area of Thun is 21.",
        "The mayor of Bern is Graf.",
        "The area of Bern is 51.",
    ]


@pytest.mark.parametrize(
    "text", ["name,city\nAnna,Bern\nBen,Thun", "city,area\nThun,21\nBern,51\n", "Item;Price\nOld bike;40,50\nTent;9"]
)
def test_two_columns_and_two_rows_are_a_table(text, texts):
    assert form_of(text) == "table"
    assert texts(text)[0].startswith("Table of 2 rows: ")


def test_rows_that_no_column_tells_apart_are_named_by_several(texts):
    text = "Date;Station;Rain (mm)\n2026-04-01;Krona;0,0\n2026-04-01;Vass;2,4\n2026-04-02;Krona;1,2\n"
    assert "The rain (mm) of 2026-04-01 (station Vass) is 2,4." in texts(text)


def test_quoted_cells_hold_lines_and_empty_ones_say_nothing(texts):
    assert texts('name,note,age\nAnn,"two\nlines",\nBo,,7\n')[1:] == [
        "The note of Ann is two lines.",
        "The age of Bo is 7.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "I like tea, and milk\nI live in Bern, near Thun\nI work here, and there",
        "Dear Ann,\nthank you, really,\nyours, Bo",
        "red, green, blue",
        "a,b",
        "1,2,3\n4,5,6\n7,8,9",
        "one\ttwo",
        "We met Ann,Bo and Eve last week\nThey live here,near us\nIt rained,snowed",
        "It costs 3,5 francs\nIt cost 2,5 francs\nIt was 1,5 francs",
        "Dear Ann,thanks.\nSee you,soon.\nYours,Bo.",
        "Call Bob,Ann\nCall Eve,Tom",
        "Call Bob, Ann\nCall Eve, Tom",
    ],
)
def test_what_is_no_table(text):
    assert form_of(text) is None


JSON = (
    '{"name": "Ada Holm", "born": 1984, "address": {"city": "Luleby"}, "languages": ["Swedish", "German"],\n'
    ' "pets": [{"kind": "cat", "name": "Mulle"}], "active": true, "unitPrice": 1.50, "note": null, "tags": []}'
)


def test_json_keeps_what_leads_to_a_value(units):
    found = {unit.text: JSON[unit.start : unit.end] for unit in units(JSON)}
    assert form_of(JSON) == "data"
    assert found == {
        "The name is Ada Holm.": '"name": "Ada Holm"',
        "Ada Holm, born: 1984": '"born": 1984',
        "The city of the address of Ada Holm is Luleby.": '"city": "Luleby"',
        "The languages of Ada Holm are Swedish and German.": '"languages": ["Swedish", "German"]',
        "The kind of the pet Mulle of Ada Holm is cat.": '"kind": "cat"',
        "The name of pet 1 of Ada Holm is Mulle.": '"name": "Mulle"',
        "The active of Ada Holm is true.": '"active": true',
        "The unit price of Ada Holm is 1.50.": '"unitPrice": 1.50',
        "The note of Ada Holm is null.": '"note": null',
        "The tags of Ada Holm are empty.": '"tags": []',
    }


def test_lines_of_json(texts):
    text = '{"name": "Ann", "city": "Thun"}\n{"name": "Bo", "city": "Bern"}\n'
    assert form_of(text) == "data"
    assert "The city of Bo is Bern." in texts(text)


def test_yaml(texts, units):
    text = "service:\n  name: heron\n  port: 9443  # behind the proxy\ndatabase:\n  # the north one\n  host: db-north\n"
    assert form_of(text) == "data"
    assert texts(text) == [
        "The name of the service is heron.",
        "behind the proxy\nThe port of the service heron is 9443.",
        "the north one\nThe host of the database is db-north.",
    ]
    assert [text[unit.start : unit.end] for unit in units(text)] == ["name: heron", "port: 9443", "host: db-north"]


def test_toml_and_ini(texts, units):
    toml = 'title = "Club"\n[coach]\nname = "Runa"\nphone = "55"\n[[boats]]\nname = "Swift"\nseats = 8\n'
    assert form_of(toml) == "data"
    assert "The phone of the coach Runa of Club is 55." in texts(toml)
    assert "The seats of the boat Swift of Club are 8." in texts(toml)
    assert [toml[unit.start : unit.end] for unit in units(toml)][-1] == "seats = 8"
    ini = "; servers\n[web]\nHost = a.example\nport: 80\n[mail]\nport = 25\n"
    assert form_of(ini) == "data"
    assert texts(ini) == [
        "servers\nThe host of the web is a.example.",
        "The port of the web is 80.",
        "The port of the mail is 25.",
    ]


@pytest.mark.parametrize(
    "ini",
    [
        "[server]\nhost = a.example\nport = 80\n\n[server]\nhost = b.example\nport = 81\n",
        "[server]\nhost = a.example\nhost = b.example\nport = 80\n",
    ],
)
def test_nothing_of_a_section_or_key_that_stands_twice_is_lost(ini, texts):
    told = "\n".join(texts(ini))
    assert all(value in told for value in re.findall(r"= (\S+)", ini))


@pytest.mark.parametrize(
    "text",
    [
        "Alice:\n- city: Bern\n- dog: Rex",
        "city: Bern\ndog: Rex",
        "name: Alice\ncity: Bern\n\nname: Bob\ncity: Rome",
        "About me:\n  I live in Bern.\n  I sail.",
        "[1, 2]",
        "[todo] call Bob\n[done] call Ann",
        "{not json}",
        "Things to do:\n  tomorrow: call Bob",
        "[0]",
        "[" * 50_000,
        '{"a":' * 50_000,
        "a: &a [b]\n" + "- " * 5000,
    ],
)
def test_what_is_no_document(text):
    assert form_of(text) is None


def test_an_alias_is_said_once(texts):
    bomb = "a: &a\n  x: lol\n" + "".join(f"k{n}: &k{n}\n  p: *{o}\n  q: *{o}\n" for n, o in
                                        zip(range(60), ["a", *(f"k{n}" for n in range(59))], strict=True))  # fmt: skip
    assert len(texts(bomb, "data")) < 200


def test_what_is_named_a_form_that_it_has_not_is_told_as_it_is(texts):
    assert texts("I live in Bern. I sail.", "data") == ["I live in Bern.", "I sail."]
